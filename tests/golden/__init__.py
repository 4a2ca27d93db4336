"""Numbers that the published reference programs gave, and the checker that compares ours."""
