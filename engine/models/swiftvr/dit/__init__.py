"""The transformer of SwiftVR: that of Wan 2.2 5B, with attention in windows."""
