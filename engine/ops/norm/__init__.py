"""Normalisation layers and the elementwise passes around them."""
