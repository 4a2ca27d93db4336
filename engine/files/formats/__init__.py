"""Readers of weight files: safetensors, GGUF and pickles of tensors."""
