"""Linear layers whose weights are in quantised formats."""
