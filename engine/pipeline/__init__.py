"""A job from source and plan to a verified result: stages joined by bounded queues."""
