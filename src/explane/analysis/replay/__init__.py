"""The dependency graph of a step, its critical path, and replays with something changed."""
