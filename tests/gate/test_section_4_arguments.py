"""A refused call is told everything that is wrong with it, in words that are true of each field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.tools import Tools, tool

ran: list[str] = []


class Address(BaseModel):
    """Where a parcel goes."""

    model_config = ConfigDict(extra="forbid")

    street: str
    zip_code: str


@tool
async def send_parcel(recipient: str, weight: float, address: Address) -> str:
    """Send a parcel."""
    ran.append(recipient)
    return "sent"


GOOD: dict[str, Any] = {
    "recipient": "Ann",
    "weight": 1.5,
    "address": {"street": "Main St", "zip_code": "1010"},
}


async def refused(inputs: dict[str, Any]) -> dict[str, Any]:
    ran.clear()
    outcome = await Gate(Tools([send_parcel]), timeout_s=5).step("send_parcel", inputs)
    assert outcome.envelope["error"] == "validation_failed"
    assert ran == []
    return outcome.envelope


async def test_a_field_inside_another_is_named_by_its_path() -> None:
    envelope = await refused({**GOOD, "address": {"street": "Main St", "zip_code": 7}})
    assert envelope["details"]["field"] == "address.zip_code"
    assert "'address.zip_code'" in envelope["reason"]
    assert "'address'" not in envelope["reason"]


@given(
    missing=st.sets(st.sampled_from(sorted(GOOD))),
    extra=st.sets(st.sampled_from(["colour", "size", "id", "note"])),
)
async def test_every_bad_field_and_no_good_one_is_named(missing: set[str], extra: set[str]) -> None:
    sent = {name: value for name, value in GOOD.items() if name not in missing}
    outcome = await Gate(Tools([send_parcel]), timeout_s=5).step(
        "send_parcel", {**sent, **dict.fromkeys(extra, 1)}
    )
    details = outcome.envelope.get("details", [])
    told = details if isinstance(details, list) else [details]
    assert {each["field"] for each in told} == missing | extra
    assert outcome.ok == (not missing | extra)
