"""Model access: one chokepoint, a small protocol, and its implementations."""
