"""Measures on the machine at hand: how fast each part is, and how good the pictures are."""
