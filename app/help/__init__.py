"""Help: every key of the window, and what the program is made of."""
