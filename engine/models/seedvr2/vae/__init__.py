"""The video VAE of SeedVR2: plain and fast variant, streaming, tiling, memory."""
