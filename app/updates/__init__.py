"""A newer version of the program: looked for only on request."""
