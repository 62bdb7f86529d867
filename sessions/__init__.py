"""What is on disk: specs, events, journals, folded state and the store of session folders."""
