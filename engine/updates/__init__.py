"""An update of the program: its signed description, and what is said about it. No network."""
