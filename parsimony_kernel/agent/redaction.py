"""Remove secrets from events before anybody reads them.

A model's words arrive in pieces, and a secret may span two of them. Text that could be the start of
a secret is held back until that is clear; nothing else is delayed.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from os.path import commonprefix

from parsimony_kernel.core import events as kinds
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.llm.secrets import Secrets

# What names a thing, and is looked up by; a sealed record is cleaned before it is sealed.
_NAMES = "type run_id tool_name tool_call_id logical_id content_sha path page suspension_record"
_IDENTITIES = frozenset(_NAMES.split())
# What the loop has made of cleaned parts, and what holds many names and no words.
_CLEAN = (kinds.ToolEvent, kinds.ToolResultObserved, kinds.StateSnapshot)
# A line that is longer is given in parts.
_LONGEST_LINE = 4_000
_PRIVATE_KEY = "-----BEGIN "


async def redacted(
    events: AsyncGenerator[AgentEvent, None], secrets: Secrets
) -> AsyncGenerator[AgentEvent, None]:
    """Yield ``events`` without secrets; text may be cut differently, and keeps its order."""
    kind: type[kinds.TextDelta] | type[kinds.ReasoningDelta] = kinds.TextDelta
    words = Words(secrets)
    async with aclosing(events):
        async for event in events:
            is_between = isinstance(event, kinds.Heartbeat | kind)
            if not is_between and (rest := words.end()):
                yield kind(content=rest)
            if isinstance(event, kinds.TextDelta | kinds.ReasoningDelta):
                kind = type(event)
                if piece := words.add(event.content):
                    yield kind(content=piece)
            else:
                yield without_secrets(event, secrets)
    if rest := words.end():
        yield kind(content=rest)


def without_secrets(event: AgentEvent, secrets: Secrets) -> AgentEvent:
    """Copy ``event`` without secrets."""
    cleaned = {
        name: of_failure(value, secrets) if isinstance(value, Failure) else secrets.of_json(value)
        for name, value in (() if isinstance(event, _CLEAN) else event)
        if name not in _IDENTITIES
    }
    return event.model_copy(update=cleaned)


def of_failure(failure: Failure, secrets: Secrets) -> Failure:
    """Copy ``failure`` without secrets in its words and metadata."""
    told = {name: getattr(failure, name) for name in ("explanation", "blockers", "metadata")}
    return replace(failure, **secrets.of_json(told))


class Words:
    """Streamed prose, passed on without secrets."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._spaced = tuple(value for value in secrets.values if len(value.split()) > 1)
        self._line = ""
        self._told = ""

    def add(self, piece: str) -> str:
        """Add a piece; return the text that is safe to show now."""
        self._line += piece
        sure = self._sure()
        is_long = len(self._line) > _LONGEST_LINE
        cut = self._line.rfind("\n", 0, sure) + 1 or (sure if is_long else 0)
        told = self._new(self._line[:cut], is_end=True) if cut else ""
        self._line = self._line[cut:]
        return told + self._new(self._line[: sure - cut])

    def end(self) -> str:
        """Return the text that is still held back."""
        line, self._line = self._line, ""
        return self._new(line, is_end=True)

    def _new(self, line: str, *, is_end: bool = False) -> str:
        cleaned, told = self._secrets.clean(line), self._told
        same = commonprefix([cleaned, told])  # noqa: RUF071 - letters are meant
        if same != told and not is_end:
            return ""  # what was told has become a secret's; the end of the line settles it
        self._told = "" if is_end else cleaned
        return cleaned[len(same) :]

    def _sure(self) -> int:
        """Length of the line that is whole words and not the start of a known value."""
        line = self._line
        sure = len(line) - len(line.split()[-1]) if line and not line[-1].isspace() else len(line)
        for value in self._spaced:
            sizes = range(min(len(value), len(line)), 0, -1)
            begun = next((size for size in sizes if line.endswith(value[:size])), 0)
            sure = min(sure, len(line) - begun)
            within = line.rfind(value)
            if 0 <= within < sure < within + len(value):
                sure = within
        opened = line.rfind(_PRIVATE_KEY)
        closed = opened < 0 or "-----END" in line[opened:]
        return sure if closed else min(sure, opened)
