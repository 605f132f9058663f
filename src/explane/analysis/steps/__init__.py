"""Launches, executions and steps of a capture."""
