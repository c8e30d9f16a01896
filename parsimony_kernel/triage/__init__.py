"""Failure triage: classify a failed run and choose its recovery."""
