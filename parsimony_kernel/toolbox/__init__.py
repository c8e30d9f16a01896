"""The tools that the agent has, each thin over the part that does the work."""
