"""Controllers: each connects one page or form of the window to the engine and the models."""
