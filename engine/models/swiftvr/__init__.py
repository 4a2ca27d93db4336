"""SwiftVR: restores a video in one pass, with a small autoencoder and a transformer in windows."""
