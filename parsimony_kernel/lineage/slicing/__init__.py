"""What a slice works with: the statements of the cells that ran, and which of them are needed."""
