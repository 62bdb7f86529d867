"""Tests: flat, named for behaviour."""
