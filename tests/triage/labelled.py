"""The labelled corpus: errors as libraries word them, each with the type that it truly is.

One JSON object a line. ``types`` are the classes of the exception, nearest first and with their
modules where those are known, none for a bare text; the other keys are the attributes that the
library sets. ``shows`` is what an exception that the library itself made shows. A run has
``steps`` instead (tool, input, output, words). ``unknown`` is the label of whatever cannot be told,
or is none of the types.

Four parts, by how much the rules know of them:

- ``tuning``: the rules were written for these errors.
- ``seen``: drawn by a hash of the entry and held back at first. Its mistakes were looked at while
  the draw was changed, so what it shows flatters.
- ``opened``: half of a batch that was labelled by the documents before its author read the rules.
  It was blind for one measurement, and the rules were then mended by its mistakes.
- ``blind``: the other half, drawn by a hash of ``id``. Only its figures were ever read; its
  entries are in ``corpus/sealed.jsonl``, and its mistakes are not to be listed. Whoever looks at
  one moves it to another file, marked ``tuned``. The author of the batch also mended the rules.

``tuned`` marks an entry that was looked at, and puts it in the first part.
"""

import errno
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from parsimony_kernel.core.error_table import step_of
from parsimony_kernel.core.kinds import FailureType, Step

FOLDER = Path(__file__).parent / "corpus"
TUNING_PERCENT = 60

Part = Literal["tuning", "seen", "opened", "blind"]
# The whole exception, or what a log keeps of it: its class and its text.
Shape = Literal["exception", "text"]


@dataclass(frozen=True)
class Entry:
    """One labelled error."""

    facts: dict[str, Any]

    @property
    def label(self) -> FailureType:
        return FailureType(self.facts["label"])

    @property
    def part(self) -> Part:
        if self.facts.get("tuned"):
            return "tuning"
        if "id" in self.facts:
            digest = hashlib.sha256(self.facts["id"].encode()).digest()
            return "blind" if digest[0] % 2 else "opened"
        told = ("types", "text") if "text" in self.facts else ("steps",)
        key = "\n".join(str(self.facts[name]) for name in ("sdk", *told))
        drawn = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 100
        return "tuning" if drawn < TUNING_PERCENT else "seen"

    @property
    def constraints(self) -> tuple[str, ...]:
        return tuple(self.facts.get("constraints", ()))

    def steps(self, shape: Shape) -> list[Step]:
        """The steps, the last of which is the one that failed."""
        if "steps" not in self.facts:
            return [self._failed(shape)]
        return [
            Step(
                index, tool, tool_called=tool, tool_input=given, tool_output=output, llm_output=said
            )
            for index, (tool, given, output, said) in enumerate(
                (*each, None)[:4] for each in self.facts["steps"]
            )
        ]

    def _failed(self, shape: Shape) -> Step:
        tool, types, text = self.facts.get("tool"), self.facts["types"], self.facts["text"]
        if shape == "exception" and types and "shows" not in self.facts:
            return step_of(_exception(self.facts), 0, "call", tool_called=tool)
        kind = types[0].rpartition(".")[2] if types else None
        shown = self.facts.get("shows", {}) if shape == "exception" else {}
        return Step(0, "call", tool_called=tool, error=text, exception_type=kind, metadata=shown)


def _exception(facts: dict[str, Any]) -> Exception:
    """An exception of classes and attributes that are called as the library's."""
    exc = _raisable(facts["types"], facts["text"])
    for key, value in _attributes(facts).items():
        setattr(exc, key, value)
    match facts.get("cause"):
        case dict() as cause:
            exc.__cause__ = _exception(cause)
        case list() as names:
            exc.__cause__ = _raisable(names, "")
    if facts.get("orig"):
        exc.orig = exc.__cause__  # type: ignore[attr-defined]
    return exc


def _raisable(names: list[str], text: str) -> Exception:
    made: type[Exception] = Exception
    for dotted in reversed(names):
        module, _, name = dotted.rpartition(".")
        made = type(name, (made,), {"__module__": module or __name__})
    return made(text)


def _attributes(facts: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = dict(facts.get("attrs", {}))
    if "response" in facts:
        given["response"] = SimpleNamespace(**{"headers": {}} | facts["response"])
    for key, attribute in (
        ("status", "status_code"),
        ("http", "status"),
        ("code", "code"),
        ("rpc", "code"),
    ):
        if key in facts:
            given[attribute] = facts[key]
    if "errno" in facts:
        given["errno"] = getattr(errno, facts["errno"])
    if "rpc_error" in facts:
        given["error"] = SimpleNamespace(code=facts["rpc_error"], message=facts["text"])
    if "aws" in facts:
        given["response"] = {
            "Error": {"Code": facts["aws"]},
            "ResponseMetadata": {"HTTPStatusCode": facts.get("http_aws", facts.get("status"))},
        }
    if "grpc" in facts:
        status = SimpleNamespace(name=facts["grpc"])
        given["code"] = lambda: status
    return given


def entries(part: Part | None = None) -> Iterator[Entry]:
    """The corpus, or one part of it."""
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = Entry(json.loads(line))
            if part is None or entry.part == part:
                yield entry
