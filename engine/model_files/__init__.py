"""Model files: the catalogue, the installed files, reading their tensors."""
