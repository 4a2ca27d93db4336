"""What may be used, and the plan that fits into it."""
