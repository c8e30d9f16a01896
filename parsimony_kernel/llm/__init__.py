"""The way out to a model: one chokepoint, a small protocol, and what implements it."""
