"""A session that somebody reads: its journal followed, told in lines or in a report."""
