"""Reading Python, once: what each statement of a cell does with names."""
