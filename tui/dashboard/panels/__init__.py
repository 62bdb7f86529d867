"""Panels of a campaign: each with what it says."""
