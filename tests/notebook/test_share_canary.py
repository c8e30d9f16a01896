"""No value of the data reaches a model under ``schema`` and ``none``, by whatever way.

Canaries stand in every kind of value; a scripted model goes all the ways on which one could come
back to it, and every request that it gets is searched to the letter.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsimony_kernel.core.events import AgentError, AgentEvent, ToolEvent, UserInputRequested
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call
from tests.session.session_steps import bind, code, gather

# What is named nowhere in the script, so that only the notebook can have told it.
HIDDEN = ("hidden_table", "hidden_column", "hidden_file", "hidden_title", "hidden_made")


@dataclass(frozen=True)
class Canaries:
    word: str
    number: int

    def found_in(self, text: str) -> list[str]:
        return [each for each in (self.word, str(self.number)) if each in text]


CANARIES = st.builds(
    Canaries,
    word=st.text("bcdfghjkqvxz", min_size=9, max_size=14),
    number=st.integers(min_value=7_100_000_000, max_value=7_999_999_999),
)


# Ways that succeed stand between those that fail, so that the ladder is not used up.
BEFORE_THE_QUESTION: tuple[Step, ...] = (
    code("orders.head()"),
    code("print(texts, numbers)\ntexts"),
    code("raise ValueError(f'bad value {texts[0]}')"),
    code("copied = orders.copy()\nheld = dict(mapping)\nkept = odd"),
    code("mapping[texts[0]]['nothing']"),
    code("import pandas as pd\nfrom_file = pd.read_csv('sales.csv')\nfrom_file"),
    code("int(texts[0])"),
    code("texts"),
    code("print(numbers)"),
    code("print(numbers)"),
    code("print(numbers)"),
    code("text"),
    code("assert not texts, mapping"),
    code("kinds = orders.assign(region=orders['region'].astype('category'))\nkinds"),
    code("import sys\nsys.stderr.write(texts[0])\nraise KeyError(numbers[0])"),
    code("make()"),
    code("spoil()"),
    code("print(mapping)\norders['region'].tolist()"),
    code("orders['amouny'].sum()"),
    call("inspect_variable", name="mapping"),
    call("inspect_variable", name="orders"),
    call("inspect_variable", name="series"),
    code("from pathlib import Path\nprint(Path('sales.csv').read_text())"),
    code("import os\nos.listdir()"),
    call("return_dataset", variable="absent", title="The orders"),
    call("return_dataset", variable="from_file", title="The orders"),
    call("read_artifact", name="The orders"),
    call("list_artifacts"),
    call("plan", parts=["load", "sum", "tell"], done=["load", "sum", "tell"]),
    call("lookup", key="first"),
    call("lookup", key="breaks"),
    code("numbers"),
    call("lookup", key=3, other="x"),
    code("series"),
    call("lookup", key="checked"),
    code("len(texts)"),
    code("from pathlib import Path\nPath('absent.csv').read_text()"),
    code("text"),
    call("return_done", summary="The sum is 123.456 and `never_bound` holds it."),
    code("1 / 0"),
    code("total = float(numbers[0])\ntotal"),
    call("ask_user", question="Which region?", choices=["north", "south"]),
)
AFTER_THE_QUESTION: tuple[Step, ...] = (
    code("text + 1"),
    code("'%s' % text"),
    call("return_done", summary="It is done, see the cell."),
)
FOLLOWED: tuple[Step, ...] = (call("return_done", summary="Nothing is left to do."),)


class Odd:
    """Whose repr is what it holds."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __repr__(self) -> str:
        return f"<odd {self.held}>"


def fill(session: NotebookSession, canaries: Canaries) -> None:
    """Bind a value of every kind, and the person's tool."""
    word, number = canaries.word, canaries.number
    namespace = session.executor.namespace()  # type: ignore[attr-defined]
    orders = pd.DataFrame(
        {"region": [word, "north"], "amount": [number, 2], "hidden_column": [1.5, number / 7]}
    )

    def make() -> object:
        namespace["hidden_made"] = [word]
        return namespace["hidden_made"]

    def spoil() -> None:
        namespace["hidden_table"].loc[0, "region"] = "changed"
        namespace["hidden_table"] = [number]
        raise RuntimeError(f"about {word}")

    def lookup(key: str, by: str = word) -> dict[str, Any]:
        if key == "breaks":
            raise LookupError(f"{word} is not {number}")
        if key == "checked":
            raise ValueError(word)
        return {"answer": word, "amounts": [number], word: by}

    bind(
        session,
        orders=orders,
        hidden_table=orders.copy(),
        series=pd.Series([number], name="amount", index=pd.Index([word], name="region")),
        mapping={word: {"deep": [number, word]}, number: 1},
        texts=[word],
        numbers=[number],
        text=word,
        odd=Odd(word),
        default=lambda given=word: given,
        make=make,
        spoil=spoil,
        lookup=lookup,
    )
    session.tools.add("lookup")


@contextmanager
def notebook(canaries: Canaries, steps: tuple[Step, ...]) -> Iterator[NotebookSession]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("sales.csv", "hidden_file.csv"):
            (folder / name).write_text(f"region,amount\n{canaries.word},{canaries.number}\n")
        session = NotebookSession(
            executor=CodeExecutor(cwd=place),
            notebook="analysis.ipynb",
            folder=folder,
            model=ScriptedModel(steps),
            environ={},
        )
        try:
            fill(session, canaries)
            yield session
        finally:
            session.close()


async def all_the_ways(canaries: Canaries, share: Share) -> tuple[str, list[AgentEvent]]:
    """Every request of two turns under ``share``, as text, and what people are told meanwhile.

    Turns that were told values come before.
    """
    told_values: tuple[Step, ...] = (
        code("print(text, numbers[0])"),
        code("import pandas as pd\nloaded = pd.read_csv('hidden_file.csv')"),
        call("return_dataset", variable="loaded", title="hidden_title"),
        call("return_done", summary=f"The first region is {canaries.word}."),
        call("return_unable", rationale=f"{canaries.number} is missing", blockers=[canaries.word]),
    )
    steps = (*BEFORE_THE_QUESTION, *AFTER_THE_QUESTION, *FOLLOWED)
    options = TurnOptions(share=share, approve=Approval.auto)
    with notebook(canaries, told_values) as session:
        await gather(session.turn("look", cell_key="before"))
        await gather(session.turn("look again", cell_key="between"))
        model = ScriptedModel(steps)
        session.set_model(model)
        events = await gather(session.turn("sum the orders", cell_key="now", options=options))
        assert isinstance(events[-1], UserInputRequested), events[-1]
        bind(session, hidden_table=[canaries.number], text=canaries.word + "!")
        events += await gather(session.resume("north"))
        events += await gather(session.turn("and now", cell_key="after", options=options))
        model.assert_exhausted()
    texts = [
        json.dumps([list(request.messages), list(request.tools)], ensure_ascii=False)
        for request in model.requests
    ]
    return "\n".join(texts), events


FEW = settings(
    max_examples=settings().max_examples // 50,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow  # One canary of each mode is looked for below.
@pytest.mark.parametrize("share", [Share.schema, Share.none])
@FEW
@given(canaries=CANARIES)
async def test_no_value_reaches_model(share: Share, canaries: Canaries) -> None:
    sent, _ = await all_the_ways(canaries, share)
    assert canaries.found_in(sent) == []


CANARY = Canaries("qvxzkjhgfd", 7_345_678_901)


@pytest.mark.parametrize(
    ("share", "values", "names"),
    [
        (Share.none, [], []),
        (Share.schema, [], HIDDEN),
        (Share.samples, [CANARY.word, str(CANARY.number)], HIDDEN),
        (Share.full, [CANARY.word, str(CANARY.number)], HIDDEN),
    ],
)
async def test_mode_sends_what_it_says_and_people_see_everything(
    share: Share, values: Sequence[str], names: Sequence[str]
) -> None:
    """What is kept from a model stays in the record, which stays on the machine."""
    sent, events = await all_the_ways(CANARY, share)
    assert CANARY.found_in(sent) == values
    assert [name for name in HIDDEN if name in sent] == [*names]
    steps = [event for event in events if isinstance(event, ToolEvent) and event.completed]
    shown = [event.model_dump_json() for event in steps]
    assert sum(CANARY.word in each for each in shown) > len(shown) // 3
    errors = [event.message for event in events if isinstance(event, AgentError)]
    assert any(CANARY.word in each for each in errors)
