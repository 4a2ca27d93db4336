"""The transformer of SeedVR2: plain and fast variant, loading, memory and operations."""
