"""The benchmark, a wing: speed of each part on this computer, and quality of the images."""
