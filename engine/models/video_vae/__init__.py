"""Parts of which the fast variants of all video VAEs are made; they work on one clip at a time."""
