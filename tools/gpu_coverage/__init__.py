"""Which lines that run only for a GPU the tests on the pretended GPU run."""
