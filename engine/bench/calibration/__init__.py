"""The speed test: what the operations of a job cost on this machine."""
