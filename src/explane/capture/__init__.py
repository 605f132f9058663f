"""What a capture holds: readers from files to frozen columns."""
