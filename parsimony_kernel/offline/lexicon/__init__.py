"""The words that have a meaning of their own in a request, by subject."""
