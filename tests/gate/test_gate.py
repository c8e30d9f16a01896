"""One function, one envelope."""

import asyncio

import pytest
from pydantic import BaseModel

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import Action
from parsimony_kernel.gate.envelope import MAX_BYTES, to_text
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.stages import STAGES, Attempt
from parsimony_kernel.tools import Tools, tool

ran: list[str] = []


@tool
async def query_db(id: str) -> dict[str, str]:
    """Look an order up."""
    ran.append(id)
    return {"status": "delayed"}


@tool
async def edit_file(path: str) -> None:
    """Edit a file."""
    raise ValueError("must read the file before editing it")


@tool(timeout_s=0.01)
async def fetch_report() -> None:
    """Never ends."""
    await asyncio.Event().wait()


TOOLS = Tools([query_db, edit_file, fetch_report]) + termination_tools()
NAMES = list(TOOLS)


@pytest.fixture
def gate() -> Gate:
    ran.clear()
    return Gate(TOOLS, timeout_s=5)


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    zip_code: str


async def test_nested_field_is_named_by_path() -> None:
    @tool
    async def send_parcel(address: Address) -> None:
        """Send a parcel."""

    gate = Gate(Tools([send_parcel]), timeout_s=5)
    inputs = {"address": {"street": "Main St", "zip_code": 7}}
    envelope = (await gate.step("send_parcel", inputs)).envelope
    assert envelope["details"]["field"] == "address.zip_code"
    assert "'address'" not in envelope["reason"]


async def test_raising_check_blocks_and_says_so(gate: Gate) -> None:
    def broken(attempt: Attempt) -> None:
        raise RecursionError("too deep")

    checked = Gate(TOOLS, timeout_s=5, stages=(*STAGES, broken))
    outcome = await checked.step("query_db", {"id": "A102"})
    assert outcome.envelope["message"] == (
        "a check of query_db broke (RecursionError: too deep). Nothing was run."
    )
    assert outcome.failure is not None
    assert outcome.failure.suggested_action is Action.handoff
    assert outcome.envelope["valid_next_actions"] == NAMES
    assert ran == []


@pytest.mark.parametrize(
    ("action", "inputs"),
    [
        ("query_db", {"id": "A", "q" * 500_000: 1}),
        ("query_db", {"id": "A", **{f"f{each}": each for each in range(5_000)}}),
        ("n" * 500_000, {}),
    ],
    ids=["a long name", "many names", "a long action"],
)
async def test_refusal_of_huge_input_is_small(
    gate: Gate, action: str, inputs: dict[str, object]
) -> None:
    outcome = await gate.step(action, inputs)
    assert len(to_text(outcome.envelope).encode()) <= MAX_BYTES
    assert outcome.is_guidance
    assert len(repr(outcome.failure)) < 40_000
