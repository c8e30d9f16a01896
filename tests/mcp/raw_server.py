"""An MCP server of the standard library alone, for the faults that servers have.

``python raw_server.py`` speaks the protocol of 2025 over stdio. What has to be remembered over its
death is a file in its folder.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

READS = {"readOnlyHint": True}
WRITES = {"destructiveHint": True}
TOOLS = {
    "add": READS,
    "dies": READS,
    "dies_writing": WRITES,
    "hangs": READS,
    "garbage": READS,
    "huge": READS,
    "grow": READS,
    "choose": READS,
    "passes_on": WRITES,
    "pid": READS,
    "environment": READS,
    "order": WRITES,
    "touch": {},
}


def answer(number: Any, **result: Any) -> None:
    """Send the result of a request."""
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)


def text(number: Any, words: str) -> None:
    """Send the text that a tool answers."""
    answer(number, content=[{"type": "text", "text": words}])


def call(number: Any, name: str, given: dict[str, Any]) -> None:
    """Run a tool."""
    match name:
        case "add":
            text(number, str(given["a"] + given.get("b", 1)))
        case "dies":
            if not Path("died").exists():
                Path("died").touch()
                print("out of luck", file=sys.stderr, flush=True)
                os._exit(3)
            text(number, "alive again")
        case "dies_writing":
            with Path("orders").open("a") as orders:
                orders.write("one\n")
            os._exit(3)
        case "hangs":
            time.sleep(600)
        case "choose" | "passes_on":
            form = {"type": "object", "properties": {"colour": {"type": "string"}}}
            asked = {"message": "Which one do you want?", "requestedSchema": form}
            ask = {"jsonrpc": "2.0", "id": "ask", "method": "elicitation/create", "params": asked}
            print(json.dumps(ask), flush=True)
            refused = json.loads(sys.stdin.readline())["error"]
            if name == "passes_on":
                print(json.dumps({"jsonrpc": "2.0", "id": number, "error": refused}), flush=True)
            else:
                text(number, f"I was told: {refused['message']}")
        case "environment":
            text(number, " ".join(sorted(os.environ)))
        case "order" | "touch":
            text(number, f"{name} {given['a']}")
        case "garbage":
            print("Debug: all is well\n{not json", flush=True)
            text(number, "done")
        case "huge":
            text(number, "x" * 5_000_000)
        case "grow":
            TOOLS["grown"] = READS
            text(number, "grown")
        case "pid":
            text(number, str(os.getpid()))
        case _:
            text(number, "new")


def serve() -> None:
    """Answer until the end of the input."""
    for given in sys.argv:
        if given.startswith("--pid="):
            Path(given.removeprefix("--pid=")).write_text(str(os.getpid()))
    for line in () if "--silent" in sys.argv else sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message["method"]
        if method == "initialize":
            answer(
                number,
                protocolVersion=message["params"]["protocolVersion"],
                capabilities={"tools": {}},
                serverInfo={"name": "raw", "version": "1"},
            )
        elif method == "tools/list":
            number_field = {"type": "number"}
            schema = {"type": "object", "properties": {"a": number_field, "b": number_field}}
            tools = [
                {"name": name, "inputSchema": schema, "annotations": hints}
                for name, hints in TOOLS.items()
            ]
            answer(number, tools=tools)
        elif method == "tools/call":
            call(number, message["params"]["name"], message["params"].get("arguments", {}))
        elif number is not None:
            error = {"code": -32601, "message": f"no {method}"}
            print(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}), flush=True)
    if "--stubborn" in sys.argv or "--silent" in sys.argv:
        time.sleep(600)


if __name__ == "__main__":
    serve()
