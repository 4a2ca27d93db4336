"""The Wan VAEs: plain and fast variant, streaming, tiling, memory."""
