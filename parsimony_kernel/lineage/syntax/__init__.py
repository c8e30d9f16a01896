"""What the text of a cell says: its syntax, and what it does with names."""
