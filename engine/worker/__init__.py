"""The process that runs a campaign: its life, who commands it, who watches it, whom it tells."""
