"""Updates of the program: the signed description, the setup, and starting it."""
