"""One stage each: read, upscale, restore, write."""
