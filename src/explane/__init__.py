"""explane explains an XPlane: what to change to make a JAX step faster, and what can't be told."""
