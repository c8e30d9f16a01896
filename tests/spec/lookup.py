"""The order lookup that document 003 follows from beginning to end."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from parsimony_kernel.tools import Tools, tool

OrderId = Annotated[str, Field(pattern=r"^A[0-9]{3,}$")]
DELAYED = "Status: delayed, ETA Friday."
NAMES = ("query_db", "get_eta", "suggest_alternative")
# The detour of the document: one question in four wordings, one answer.
DETOUR = (
    ("query_db", {"id": "A102"}),
    ("search", {"query": "status for order A102"}),
    ("search", {"query": "A102 shipment ETA"}),
    ("search", {"query": "where is order A102"}),
)


def lookup(tell: Callable[[str], object]) -> Tools:
    """The three tools of the agent; ``tell`` hears the order of each body that runs."""

    @tool
    async def query_db(id: OrderId) -> str:
        """Look an order up."""
        tell(id)
        return DELAYED

    @tool
    async def get_eta(id: OrderId) -> str:
        """When an order arrives."""
        tell(id)
        return "Friday"

    @tool
    async def suggest_alternative(id: OrderId) -> str:
        """What could be sent instead."""
        tell(id)
        return "A103"

    return Tools([query_db, get_eta, suggest_alternative])
