"""Pixel formats, chroma and colour conversion."""
