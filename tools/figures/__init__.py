"""Figures that cannot slip: `python -m tools.figures` compares them with `docs/figures.json`."""
