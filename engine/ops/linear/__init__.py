"""Twins of nn.Linear whose weights are in other number formats."""
