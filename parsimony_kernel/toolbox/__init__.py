"""The agent's tools, each a thin layer over the module that does the work."""
