"""Independent records side by side, and what can not be trusted."""
