"""The stage: source beside result, tiles as they finish, the timeline and a few figures."""
