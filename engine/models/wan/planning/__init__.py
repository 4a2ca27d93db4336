"""Plans for the Wan VAEs: candidates, their bytes and operations, the fastest that fits."""
