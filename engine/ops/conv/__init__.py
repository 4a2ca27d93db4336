"""Causal and folded convolutions over frames."""
