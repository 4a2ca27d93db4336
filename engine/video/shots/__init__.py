"""Shot detection."""
