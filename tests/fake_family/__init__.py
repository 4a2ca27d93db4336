"""The smallest family of models that works, as docs/adding-a-model.md describes."""
