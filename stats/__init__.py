"""Statistics of a replay audit: arrays in, frozen results out. Knows nothing of sessions or engines."""
