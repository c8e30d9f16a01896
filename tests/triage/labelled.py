"""The labelled corpus: errors as libraries word them, each with the type that it truly is.

One JSON object a line. ``types`` are the classes of the exception, nearest first, none for a bare
text; the other keys are the attributes that the library sets. A run has ``steps`` instead (tool,
input, output, words), and what it records of itself. ``unknown`` is the label of whatever
cannot be told, or is none of the types. A hash of the entry decides which part it is in: rules
are tuned on the first, and the second only measures. ``tuned`` marks an entry that was looked at
nevertheless, and puts it in the first.
"""

import errno
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from parsimony_kernel.triage.evidence import step_of
from parsimony_kernel.triage.taxonomy import FailureType, Step, TriageContext

FOLDER = Path(__file__).parent / "corpus"
TUNING_PERCENT = 60

Part = Literal["tuning", "frozen"]
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
        told = ("types", "text") if "text" in self.facts else ("steps",)
        key = "\n".join(str(self.facts[name]) for name in ("sdk", *told))
        drawn = int(hashlib.sha256(key.encode()).hexdigest(), 16) % 100
        return "tuning" if drawn < TUNING_PERCENT else "frozen"

    @property
    def constraints(self) -> tuple[str, ...]:
        return tuple(self.facts.get("constraints", ()))

    @property
    def run(self) -> TriageContext:
        """What the run records of itself."""
        given = dict(self.facts.get("run", {}))
        for name, make in (("subgoals", tuple), ("done_subgoals", frozenset), ("observed", tuple)):
            if name in given:
                given[name] = make(given[name])
        return TriageContext(**given)

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
        tool = self.facts.get("tool")
        if shape == "text" or not self.facts["types"]:
            names = self.facts["types"]
            return Step(
                0,
                "call",
                tool_called=tool,
                error=self.facts["text"],
                exception_type=names[0] if names else None,
            )
        return step_of(self.exception(), 0, "call", tool_called=tool)

    def exception(self) -> Exception:
        """An exception of classes with these names, with the attributes that the library sets."""
        exc = _raisable(self.facts["types"], self.facts["text"])
        for key, value in _attributes(self.facts).items():
            setattr(exc, key, value)
        if "cause" in self.facts:
            exc.__cause__ = _raisable(self.facts["cause"], "")
        return exc


def _raisable(names: list[str], text: str) -> Exception:
    made: type[Exception] = Exception
    for name in reversed(names):
        made = type(name, (made,), {})
    return made(text)


def _attributes(facts: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, attribute in (
        ("status", "status_code"),
        ("http", "status"),
        ("code", "code"),
        ("rpc", "code"),
        ("sqlstate", "sqlstate"),
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
