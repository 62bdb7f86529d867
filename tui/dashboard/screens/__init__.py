"""Whole screens: home, a campaign, a replay, the new-campaign form, windows above them."""
