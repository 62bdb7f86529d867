"""Problems and their grading."""
