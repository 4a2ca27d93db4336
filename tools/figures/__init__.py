"""Figures that cannot slip: `python -m tools.figures` compares this tree with another commit."""
