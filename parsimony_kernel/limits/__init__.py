"""What a run may use up and whom it may still call: budgets and circuit breakers."""
