"""Tests; helpers are imported as `tests.shared` and `tests.builders`."""
