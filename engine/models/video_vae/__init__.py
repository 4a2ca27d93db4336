"""Parts of which the fast forms of all video VAEs are made; they work on one clip at a time."""
