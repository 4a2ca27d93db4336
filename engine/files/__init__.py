"""Files that are kept on this computer: downloads, model files, and formats of weights."""
