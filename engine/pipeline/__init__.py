"""From a source and a plan to a verified result: stages joined by bounded queues."""
