"""The reading of a .latent file: the user sees both, and decides."""
