"""Colour correction of a result against its source."""
