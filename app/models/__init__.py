"""What is on this machine of the published models: get, verify, import, remove."""
