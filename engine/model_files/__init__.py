"""Files with numbers in them: what they hold, and reading it tensor by tensor."""
