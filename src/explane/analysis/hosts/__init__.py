"""Several processes: clocks, lateness, equal programs."""
