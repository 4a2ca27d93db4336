"""NVIDIA runtimes: builds of torch that are installed next to the program's own."""
