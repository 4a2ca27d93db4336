"""Small widgets that know neither the engine nor the state of the window."""
