"""The page of other computers."""
