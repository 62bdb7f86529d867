"""What a screen says, as pure functions from a campaign's state to inked lines: no widget, no clock, no file."""
