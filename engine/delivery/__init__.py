"""A wing: NVIDIA builds of torch and newer versions of the program, brought to this computer."""
