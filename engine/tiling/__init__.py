"""How a frame is cut into tiles and put together again."""
