"""Events without secrets, and words that come in pieces."""

from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.stream_redaction import Words, redacted
from parsimony_kernel.core.causes import RAISED
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Heartbeat,
    ReasoningDelta,
    RunCompleted,
    TextDelta,
)
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.llm.secrets import Secrets

SPACED = "two words & more"
SECRETS = Secrets({"A_TOKEN": "in-environment", "B_SECRET": SPACED})
TEXTS = [
    "Nothing to hide.\nNot here either.",
    f"The {SPACED} of it.",
    f"{SPACED}{SPACED}",
    "two words & less",
    'password = "correct horse" and more\nin-environment, once more in-environment',
    "Bearer abc123.def456 then\n\npassword=hunter2&3 x",
    "-----BEGIN PRIVATE KEY-----\nabc def\nghi\n-----END PRIVATE KEY-----\nafter",
    "https://u:hunter2@host/x?password=hunter2&y=1\n",
]


async def gathered(events: Sequence[AgentEvent]) -> list[AgentEvent]:
    async def stream() -> AsyncGenerator[AgentEvent, None]:
        for event in events:
            yield event

    return [event async for event in redacted(stream(), SECRETS)]


def parts(text: str, cuts: Sequence[int]) -> list[str]:
    places = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


@given(text=st.sampled_from(TEXTS), cuts=st.lists(st.integers(0, 200), max_size=60))
def test_chunked_text_is_scrubbed_as_a_whole(text: str, cuts: list[int]) -> None:
    words = Words(SECRETS)
    told = "".join([*(words.add(piece) for piece in parts(text, cuts)), words.end()])
    assert told == SECRETS.clean(text)


@pytest.mark.parametrize("text", TEXTS)
def test_partial_secret_is_never_emitted(text: str) -> None:
    words, told = Words(SECRETS), ""
    for letter in text:
        told += words.add(letter)
        assert SECRETS.clean(text).startswith(told)


def test_endless_line_is_emitted_in_parts() -> None:
    words = Words(SECRETS)
    text = "word " * 5_000
    told = "".join(words.add(text[at : at + 50]) for at in range(0, len(text), 50))
    assert told == text
    assert words.end() == ""


async def test_text_keeps_its_place_among_events() -> None:
    beat = Heartbeat(model="m", silent_s=1.0)
    done = RunCompleted(summary="in-environment")
    told = await gathered(
        [
            ReasoningDelta(content="I thi"),
            ReasoningDelta(content="nk"),
            TextDelta(content="say in-envi"),
            beat,
            TextDelta(content="ronment"),
            done,
        ]
    )
    assert told == [
        ReasoningDelta(content="I "),
        ReasoningDelta(content="think"),
        TextDelta(content="say "),
        beat,
        TextDelta(content=REDACTED),
        RunCompleted(summary=REDACTED),
    ]


EVENTS = [
    AgentError(message="x in-environment", failure=RAISED.failure("password=hunter2")),
    RunCompleted(summary="password=hunter2"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_text_is_scrubbed_once(event: AgentEvent) -> None:
    clean = SECRETS.of_event(event)
    text = clean.model_dump_json()
    assert REDACTED in text
    assert "hunter2" not in text
    assert "in-environment" not in text
    assert SECRETS.of_event(clean) == clean
