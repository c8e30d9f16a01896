"""What a run needs, and what to do about what is missing."""
