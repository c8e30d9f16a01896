"""Limits on runs: token and cost budgets, and circuit breakers for services."""
