"""The use cases, and with the package root the library's public face."""
