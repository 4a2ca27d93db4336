"""Functions on tensors: told device and backend, never choosing."""
