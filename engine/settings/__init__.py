"""What a user can choose, as data."""
