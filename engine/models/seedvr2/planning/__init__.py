"""Plans for SeedVR2: candidates, their bytes and operations, the fastest that fits."""
