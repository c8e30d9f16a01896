"""Functions of the notebook as tools of its turns."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.chat import Completion, ModelRequest
from parsimony_kernel.core.events import (
    ArtifactPublished,
    RunCompleted,
    ToolResultObserved,
    UserInputRequested,
)
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.identity import object_pool_path
from parsimony_kernel.session.turn_values import SessionError, TurnOptions
from parsimony_kernel.testing.scripted import call
from parsimony_kernel.tools import Tool

from .session_steps import DONE, bind, gather


async def answer(**arguments: Any) -> str:
    return "x"


def generated(name: str) -> Any:
    yield name


def leaving(x: "exit(3)") -> None: ...  # type: ignore[valid-type]


def named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


OBJECT = {"type": "object"}
FIT: dict[str, Any] = {
    "function": answer,
    "name": "own",
    "description": "",
    "parameters_schema": OBJECT,
}
NAMELESS = "a name that no tool of every turn has, of 1 to 64 letters"
TYPES = "give each parameter a name and a type that JSON knows"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Tool(**{**FIT, "function": None}), TYPES),
        (Tool(**{**FIT, "name": None}), TYPES),
        (Tool(**{**FIT, "name": "own\n"}), NAMELESS),
        (Tool(**{**FIT, "name": "größe"}), NAMELESS),
        (Tool(**{**FIT, "name": "x" * 65}), NAMELESS),
        (lambda: 3, NAMELESS),
        (generated, "is a generator, .* return a list"),
        (Tool(**{**FIT, "parameters_schema": None}), TYPES),
        (Tool(**{**FIT, "parameters_schema": OBJECT | {"x": object()}}), TYPES),
        (Tool(**{**FIT, "parameters_schema": OBJECT | {"x": float("nan")}}), TYPES),
        (Tool(**{**FIT, "effect": "banana"}), "its effect 'none', 'idempotent' or 'write'"),
        (named("plan", lambda: 3), "'plan' must be a name that no tool of every turn has"),
        (leaving, r"\(SystemExit: 3\): give each parameter a name and a type"),
    ],
)
async def test_unfit_tool_is_refused_in_one_sentence(start: Any, value: Any, says: str) -> None:
    session = start()
    bind(session, own=value)
    with pytest.raises(SessionError, match=f"'own' cannot become a tool.*{says}") as told:
        session.tools.add("own")
    assert "\n" not in str(told.value)
    assert dict(session.tools.added()) == {}


def area_in(unit: str) -> Any:
    def area(width: int) -> str:
        return f"{width} {unit}"

    area.__doc__ = f"In {unit}."
    return area


CALL_AREA = (call("area", width=3), DONE)


async def test_redefined_function_is_next_turns_tool(start: Any) -> None:
    session = start(CALL_AREA)
    bind(session, area=area_in("feet"))
    session.tools.add("area")
    bind(session, area=area_in("metres"))
    events = await gather(session.turn("the area", cell_key="a"))
    answers = [event for event in events if isinstance(event, ToolResultObserved)]
    assert "3 metres" in answers[0].content
    assert session.tools.added()["area"].description == "In metres."


@pytest.mark.parametrize("value", [12.0, generated, named("run_code", area_in("yards"))])
async def test_a_turn_does_not_begin_with_a_tool_whose_name_means_none_any_more(
    start: Any, value: Any
) -> None:
    session = start([DONE])
    bind(session, area=area_in("feet"))
    session.tools.add("area")
    bind(session, area=value)
    with pytest.raises(SessionError, match=r"'area' .*remove it: %agent tools remove area"):
        await gather(session.turn("the area", cell_key="a"))
    session.tools.remove("area")
    assert isinstance((await gather(session.turn("go on", cell_key="a")))[-1], RunCompleted)


async def test_of_two_tools_of_one_name_the_newest_is_meant(start: Any) -> None:
    session = start()
    for variable, unit in (("one", "feet"), ("two", "metres")):
        bind(session, **{variable: named("area", area_in(unit))})
        session.tools.add(variable)
    feet = session.executor.variables()["one"]
    bind(session, one="no tool, which is of no account for it was replaced")
    assert session.tools.added()["area"].description == "In metres."
    bind(session, one=feet)
    session.tools.add("one")
    assert [(each.name, each.description) for each in session.tools.added().values()] == [
        ("area", "In feet.")
    ]


async def test_model_and_tools_are_fixed_during_turn(start: Any) -> None:
    session = start([DONE])
    model = session.model_name
    bind(session, area=area_in("feet"))
    bind(session, more=answer)
    session.tools.add("area")
    running = session.turn("end it", cell_key="a")
    await anext(running)
    for change in (
        lambda: session.set_model("offline"),
        lambda: session.tools.add("more"),
        lambda: session.tools.remove("area"),
        lambda: session.preview("more", cell_key="b"),
    ):
        with pytest.raises(SessionError, match="A turn is still running"):
            change()
    with pytest.raises(SessionError, match="A turn is still running"):
        await gather(session.turn("second", cell_key="b"))
    await gather(running)
    assert (session.model_name, list(session.tools.added())) == (model, ["area"])
    session.set_model("offline")
    session.tools.remove("area")
    session.tools.add("more")
    assert (session.model_name, list(session.tools.added())) == ("offline", ["answer"])


def rates_of(rows: list[float]) -> Any:
    def rates(currency: str) -> pd.DataFrame:
        """The rates of a currency."""
        return pd.DataFrame({"rate": rows})

    return rates


def load_kept(request: ModelRequest) -> Completion:
    """The code that the note of the tool's answer names."""
    told = str(request.messages[-1]["content"])
    (found,) = re.findall(r"parsimony_kernel\.load_dataset\('\w+'\)", told)
    return call("run_code", code=f"import parsimony_kernel\nrates_now = {found}")


async def test_fetched_frame_is_kept_as_source(start: Any, folder: Path) -> None:
    publish = call("return_dataset", variable="rates_now", title="Rates")
    fetch = (call("rates", currency="EUR"), load_kept, publish, DONE)
    session = start([*fetch, *fetch])
    datasets = []
    for cell, rows in (("a", [1.0, 1.1]), ("b", [1.0, 1.1, 1.2])):
        bind(session, rates=rates_of(rows))
        session.tools.add("rates")
        options = TurnOptions(approve=Approval.auto)
        events = await gather(session.turn("fetch them", cell_key=cell, options=options))
        kept, published = [e for e in events if isinstance(e, ArtifactPublished)]
        assert (kept.kind, kept.title) == ("data_object", "rates(currency='EUR')")
        assert kept.path == object_pool_path(kept.content_sha)
        assert len(pd.read_parquet(folder / kept.path)) == len(rows)
        entry = ArtifactStore(folder).latest("dataset", published.logical_id)
        assert entry is not None
        assert [source.path for source in entry.sources] == [kept.path]
        datasets.append((kept.logical_id, published.logical_id))
    # Fetched again it is the same object, and what is made of it the same dataset.
    assert datasets[0] == datasets[1]
    log = ArtifactStore(folder).history("data_object", datasets[0][0])
    assert [each.provenance["properties"]["rows"] for each in log] == [2, 3]


@pytest.mark.parametrize("approve", Approval)
async def test_unwatchable_kernel_asks_before_every_step(
    scripted: Any, folder: Path, approve: Approval
) -> None:
    class Unwatched(CodeExecutor):
        is_watched = False

    session = scripted(call("run_code", code="x = 1"), DONE, executor=Unwatched(cwd=str(folder)))
    options = TurnOptions(approve=approve)
    last = (await gather(session.turn("go", cell_key="a", options=options)))[-1]
    assert isinstance(last, RunCompleted if approve is Approval.auto else UserInputRequested)
