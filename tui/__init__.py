"""The terminal program: the `refeed-tui` command, its screens and widgets."""
