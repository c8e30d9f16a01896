"""Static analysis of Python cells: how each statement uses names."""
