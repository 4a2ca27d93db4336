"""Fused CUDA kernels, compiled when first needed; each must equal its PyTorch reference."""
