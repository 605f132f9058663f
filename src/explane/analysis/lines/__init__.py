"""From instructions to op names and Python lines, and time by each."""
