"""Fused CUDA kernels, compiled when first needed; each has a torch twin that it must equal."""
