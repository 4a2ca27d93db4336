"""A newer version of the program: looked for only when somebody asks."""
