"""One run: the loop, its state, its events, and how it fails."""
