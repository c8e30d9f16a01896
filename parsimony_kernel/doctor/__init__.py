"""Health checks: the requirements of a run, with remedies."""
