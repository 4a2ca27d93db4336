"""Pictures that are drawn from a seed, for training Lite."""
