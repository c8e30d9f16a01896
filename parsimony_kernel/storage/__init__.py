"""Durable storage: file writes, the journal of runs, and the signing keys."""
