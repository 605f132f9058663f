"""What to change, ranked."""
