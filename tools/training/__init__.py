"""Training of Lite and of the decoders of Wan VAEs."""
