"""Screens and panes: they ask views what to say and hand it to widgets."""
