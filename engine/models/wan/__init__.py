"""The VAEs of Wan 2.1 and 2.2, and the decoder that enlarges."""
