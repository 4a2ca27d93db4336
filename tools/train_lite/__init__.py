"""Training of the Lite model from synthetic pictures."""
