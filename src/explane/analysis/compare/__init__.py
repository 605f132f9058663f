"""Two captures of the same work."""
