"""A running notebook as an MCP server: ``server`` for the client, ``notebook`` in the kernel."""
