"""The measurement itself: trunks, pivots, passes, their checks and their evidence. Knows no backend."""
