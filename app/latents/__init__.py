"""How the numbers of a .latent file are meant: somebody who sees both readings decides."""
