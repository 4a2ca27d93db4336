"""Developer tools; nothing that ships imports them."""
