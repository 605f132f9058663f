"""FLOPs and bytes of instructions, and the peaks that they are set against."""
