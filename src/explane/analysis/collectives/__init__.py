"""Collectives matched across GPUs."""
