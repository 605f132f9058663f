"""Builders of the report's sections: each reads tables by query and returns blocks."""
