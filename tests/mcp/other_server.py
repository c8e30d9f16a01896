"""An MCP server made with the official package, for tests of the client.

``python other_server.py`` speaks the protocol of 2026 over stdio, or HTTP with ``--http PORT``.
"""

import sys
from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("other", log_level="CRITICAL")
READS = ToolAnnotations(read_only_hint=True)


class Colour(BaseModel):
    colour: Literal["red", "blue"]
    pieces: int


@server.tool(annotations=READS)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=READS)
def fails() -> str:
    """Fail by its own word."""
    raise ValueError("no such table")


def which() -> Elicit[Colour]:
    """The question for whoever calls."""
    return Elicit("Which one do you want?", Colour)


@server.tool(annotations=READS)
def choose(wanted: Annotated[ElicitationResult[Colour], Resolve(which)]) -> str:
    """Ask the person for a colour and a number."""
    if not isinstance(wanted, AcceptedElicitation):
        return f"the person said {wanted.action}"
    return f"{wanted.data.pieces} in {wanted.data.colour}"


if __name__ == "__main__":
    if "--http" in sys.argv:
        port = int(sys.argv[sys.argv.index("--http") + 1])
        server.run(transport="streamable-http", host="127.0.0.1", port=port)
    else:
        server.run()
