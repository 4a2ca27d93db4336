"""Jobs: their states, their order, what survives a crash, and the thread that runs them."""
