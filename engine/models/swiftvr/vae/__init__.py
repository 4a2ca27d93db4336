"""The autoencoder of SwiftVR (ReAE)."""
