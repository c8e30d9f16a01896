"""Parsimony Agent: an agent in a notebook that fails legibly, asks, and leaves known origins."""

__version__ = "0.1.0"
