"""Pure functions from a capture to frozen results."""
