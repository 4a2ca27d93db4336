"""Between the engine threads and Qt."""
