"""SeedVR2: a video VAE and a one-step diffusion transformer."""
