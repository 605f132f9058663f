"""Captures with known truth, from compiled programs and a seed."""
