"""Widgets that draw what they are given: they neither compute nor fetch."""
