"""Search over memory plans, shared by the families of models."""
