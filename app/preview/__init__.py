"""The preview: source and result, tiles as they finish, the timeline and a few figures."""
