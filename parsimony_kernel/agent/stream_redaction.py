"""Remove secrets from events before anybody reads them.

A model's text arrives in pieces, and a secret may span two of them. Text that could be the start of
a secret is buffered until that is clear; nothing else is delayed.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from os.path import commonprefix

from parsimony_kernel.core import events as ev
from parsimony_kernel.llm.secrets import Secrets

# A longer line is passed on in parts.
_LONGEST_LINE = 4_000
_PRIVATE_KEY = "-----BEGIN "


async def redacted(
    events: AsyncGenerator[ev.AgentEvent, None], secrets: Secrets
) -> AsyncGenerator[ev.AgentEvent, None]:
    """Yield ``events`` without secrets; text may be cut differently, and keeps its order."""
    kind: type[ev.TextDelta] | type[ev.ReasoningDelta] = ev.TextDelta
    words = Words(secrets)
    async with aclosing(events):
        async for event in events:
            is_between = isinstance(event, ev.Heartbeat | kind)
            if not is_between and (rest := words.end()):
                yield kind(content=rest)
            if isinstance(event, ev.TextDelta | ev.ReasoningDelta):
                kind = type(event)
                if piece := words.add(event.content):
                    yield kind(content=piece)
            else:
                yield secrets.of_event(event)
    if rest := words.end():
        yield kind(content=rest)


class Words:
    """Redactor of streamed text."""

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
        emitted = self._new(self._line[:cut], is_end=True) if cut else ""
        self._line = self._line[cut:]
        return emitted + self._new(self._line[: sure - cut])

    def end(self) -> str:
        """Return the buffered rest of the text."""
        line, self._line = self._line, ""
        return self._new(line, is_end=True)

    def _new(self, line: str, *, is_end: bool = False) -> str:
        cleaned, emitted = self._secrets.clean(line), self._told
        same = commonprefix([cleaned, emitted])  # noqa: RUF071 - letters are meant
        if same != emitted and not is_end:
            return ""  # emitted text turned out to begin a secret; wait for the end of the line
        self._told = "" if is_end else cleaned
        return cleaned[len(same) :]

    def _sure(self) -> int:
        """Return the length of the line's safe prefix: whole words, and no start of a secret."""
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
