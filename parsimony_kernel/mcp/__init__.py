"""MCP server for a running notebook: ``server`` faces the client, ``notebook`` is in the kernel."""
