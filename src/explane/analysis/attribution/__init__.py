"""Which instruction of its program each kernel belongs to."""
