"""The gate: the single entry point for every action of a run, and the envelope it returns."""
