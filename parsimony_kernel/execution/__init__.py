"""Running Python: in the user's shell or in a private namespace, with typed outputs."""
