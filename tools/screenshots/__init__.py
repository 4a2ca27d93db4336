"""Screenshots of the window in every state."""
