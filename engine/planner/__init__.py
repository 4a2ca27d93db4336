"""Plans that fit into the memory and time of a computer."""
