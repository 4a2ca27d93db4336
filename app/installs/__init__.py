"""Model files, NVIDIA runtimes and updates: pages of what is or can be installed."""
