"""ComfyUI's .latent files: reading, writing, latent spaces."""
