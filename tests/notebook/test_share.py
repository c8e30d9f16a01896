"""How much of a notebook a model is told, of what, and what it is told instead of the rest."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.core import events as ev
from parsimony_kernel.core import kinds as made
from parsimony_kernel.core.chat import ModelRequest, ToolCall
from parsimony_kernel.core.conversation import pictures_in
from parsimony_kernel.core.kinds import FailureType, TriageContext
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import KEPT_NAME, Share, Step, kind_of, shape_of, shared
from parsimony_kernel.session.turn_values import MENDING, TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.testing.scripted import Step as Played
from tests.session.session_steps import begun, bind, code, gather, question, turn

DONE = call("return_done", summary="It is done.")
Start = Callable[..., NotebookSession]


@pytest.fixture
def start(tmp_path: Path, scripted: Start) -> Start:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\n")
    (tmp_path / "costs.csv").write_text("amount\n3\n")

    def build(*steps: Played) -> NotebookSession:
        session = scripted(*steps)
        sales = pd.DataFrame({"region": ["north", "south"], "amount": [17.25, 2]})
        bind(session, sales=sales, note="written by hand")
        return session

    return build


def asked_of(session: NotebookSession) -> list[ModelRequest]:
    model = session._model
    assert isinstance(model, ScriptedModel)
    return model.requests


def told_first(request: ModelRequest) -> dict[str, Any]:
    """The inventory that a request holds."""
    text = str(request.messages[-2]["content"])
    told = text.partition("<notebook_context>")[2].partition("</notebook_context>")[0]
    inventory: dict[str, Any] = json.loads(told)
    return inventory


def preview(session: NotebookSession, **options: Any) -> dict[str, Any]:
    return told_first(session.preview("sum it", options=TurnOptions(**options)))


# -- the inventory


@pytest.mark.parametrize(
    ("share", "request_", "told"),
    [
        (Share.full, "sum it", True),
        (Share.samples, "sum it", False),
        (Share.samples, "sum the Sales", True),
        (Share.schema, "sum the sales", False),
    ],
)
def test_first_rows_are_shared_in_full_mode_and_when_named(
    start: Start, share: Share, request_: str, told: bool
) -> None:
    request = start().preview(request_, options=TurnOptions(share=share))
    table = next(v for v in told_first(request)["variables"] if "rows" in v)
    assert table.get("rows_begin") == (
        ["region  amount", " north   17.25", " south     2.0"] if told else None
    )


DRAW = code("import altair as alt\nalt.Chart(sales).mark_bar().encode(x='region', y='amount')")


@pytest.mark.parametrize(
    ("share", "figures", "shown"),
    [
        (Share.full, False, 1),
        (Share.samples, True, 1),
        (Share.samples, False, 0),
        (Share.schema, True, 0),
        (Share.none, True, 0),
    ],
)
async def test_charts_are_shared_in_full_mode_or_when_set(
    start: Start, share: Share, figures: bool, shown: int
) -> None:
    session = start(DRAW, DONE)
    session._model.sees_pictures = True  # type: ignore[union-attr]
    events = await turn(session, "draw it", share=share, share_figures=figures)
    (_, second) = asked_of(session)
    assert sum(1 for each in second.messages for _ in pictures_in(each)) == shown
    assert begun(events).share_figures is figures


def test_schema_is_names_types_and_shapes(start: Start) -> None:
    told = preview(start(), share=Share.schema)
    assert told["variables"] == [
        {
            "type": "dataframe",
            "name": "sales",
            "rows": 2,
            "columns": "region (str); amount (float64)",
        },
        {"type": "primitive", "name": "note", "python_type": "str"},
    ]
    assert told["files"] == ["costs.csv", "data/sales.csv"]
    assert "--share schema" in told["kept_back"]


def test_withheld_value_is_replaced_by_a_note(start: Start) -> None:
    told = preview(start(), share=Share.none)
    assert "--share none" in told.pop("kept_back")
    assert not any(told.values())


@pytest.mark.parametrize(
    ("dtype", "told"),
    [
        ("Enum(categories=['north'])", "Enum"),
        ("Sparse[int64, 1234567]", "Sparse"),
        ("datetime64[ns, Europe/Berlin]", "datetime64[ns, Europe/Berlin]"),
        ("int64", "int64"),
        ("'north'", ""),
    ],
)
def test_dtype_lists_no_values(dtype: str, told: str) -> None:
    shape = shape_of({"type": "dataframe", "columns": [{"name": "a", "dtype": dtype}]})
    assert shape["columns"] == [{"name": "a", "dtype": told}]


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        (("Ada", "36"), True),
        (("Ada", "5100.5"), True),
        (("Ada", "2024-01-02"), True),
        (("Ada", "$1,200"), True),
        (("Ada", "ada@example.org"), True),
        (("region", "amount", "Unnamed: 2"), False),
        (("country", "1990", "2000"), False),
        (("month", "1", "2", "3"), False),
        (("0", "1"), False),
    ],
)
def test_header_made_of_first_record_is_withheld(names: tuple[str, ...], is_one: bool) -> None:
    columns = [{"name": name, "dtype": "int64"} for name in names]
    told = shape_of({"type": "dataframe", "columns": columns}, "")["columns"]
    assert [each["name"] == KEPT_NAME for each in told] == [is_one] * len(names)


ROW = {"type": "dataframe", "columns": [{"name": "index", "index": True}, {"name": "Ada"}]}


@pytest.mark.parametrize(
    ("code", "told"), [(None, KEPT_NAME), ("df.iloc[0]", KEPT_NAME), ("df.loc['Ada']", "Ada")]
)
def test_row_label_is_shared_only_if_code_names_it(code: str | None, told: str) -> None:
    assert shape_of(ROW, code)["columns"][1]["name"] == told


# -- what is told of steps


async def test_step_says_what_it_withholds(start: Start) -> None:
    session = start(code("print(1)\nsales['amount'].sum()"), code("total = 1"), DONE)
    await turn(session, "sum it", share=Share.schema)
    answer = asked_of(session)[1].messages[-1]["content"]
    kept, note = answer.split("\n")
    assert kept == '{"type": "primitive", "python_type": "float64"}'
    assert "the person sees them" in note


async def test_withheld_number_is_marked_in_claims(start: Start) -> None:
    session = start(
        code("sales['amount'].sum()"), call("return_done", summary="The total is 19.25.")
    )
    events = await turn(session, "sum it", share=Share.schema)
    assert isinstance(events[-1], ev.RunCompleted)
    ends = [e for e in events if isinstance(e, ev.ToolEvent) and e.tool_name == "return_done"]
    assert ends[-1].result is not None
    assert ends[-1].result["not_found"] == ["19.25"]


async def test_none_mode_shares_success_only(start: Start) -> None:
    session = start(code("total = sales['amount'].sum()"), code("sales['x'][0]"), code("1/0"), DONE)
    await turn(session, "sum it", share=Share.none)
    answers = [r.messages[-1]["content"] for r in asked_of(session)[1:]]
    assert answers[0].startswith("What this step gave is kept in the notebook")
    assert "region" not in answers[1]
    assert "ZeroDivisionError at line 1: 1/0" in answers[2]


async def test_approval_shows_whole_step(start: Start) -> None:
    session = start(code("open(target, 'w').write('x')"), DONE)
    target = str(Path("/nowhere") / "qvxzkjhgfd.txt")
    bind(session, target=target)
    events = await turn(session, "write it", share=Share.schema, approve=Approval.guarded)
    asked = question(events)
    assert target in str(asked.context)
    record = asked.suspension_record
    assert "qvxzkjhgfd" not in json.dumps(record.messages)
    assert not record.lessons_learned
    await gather(session.resume("Don't"))
    assert "qvxzkjhgfd" not in json.dumps(list(asked_of(session)[-1].messages))


async def test_guard_exception_text_is_withheld(start: Start, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        "states: [a, b]\nstart: a\nfinal: [b]\nedges:\n"
        "  - {action: plan, from: a, to: a, guard: ready}\n"
        "  - {action: run_code, from: a, to: b}\n"
    )

    def ready(*state: object, **more: object) -> bool:
        raise ValueError("qvxz in the data")

    session = start(call("plan", parts=["a"]))
    bind(session, ready=ready)
    events = await turn(session, "go", share=Share.schema, procedure="task.yaml")
    read = [event.content for event in events if isinstance(event, ev.ToolResultObserved)]
    assert len(read) == 1
    assert "qvxz" not in read[0]
    assert isinstance(events[-1], ev.Handoff)
    assert "qvxz" in events[-1].rationale


# -- earlier turns


async def test_earlier_turns_are_told_by_request_alone_under_schema(start: Start) -> None:
    unable = call("return_unable", rationale="north is 17.25", blockers=["x"])
    session = start(call("return_done", summary="It is 17.25"), unable, DONE)
    mend = f"{MENDING} Mend it.\n\nThe error: ValueError: north is 17.25"
    for cell, request in (("a", "one"), ("b", mend), ("c", "now")):
        options = TurnOptions(share=Share.schema)
        await gather(session.turn(request, cell_key=cell, options=options))
    sent = asked_of(session)[-1].messages
    answers = [m["content"] for m in sent if m["role"] == "assistant"]
    assert answers == ["Done.", "Not done; it was handed back."]
    assert MENDING in str(sent)
    assert "17.25" not in str(sent)


# -- the person's tools


def pick(region: str = "north") -> str:
    """Picks."""
    return f"{region} was picked"


def add(session: NotebookSession) -> None:
    """Make ``pick`` a tool, as a cell of the notebook would."""
    bind(session, pick=pick)
    session.tools.add("pick")


@pytest.mark.parametrize(("share", "parameters"), [(Share.none, []), (Share.schema, [["region"]])])
def test_users_tool_is_offered_without_its_defaults_or_not_at_all(
    start: Start, share: Share, parameters: list[list[str]]
) -> None:
    session = start()
    add(session)
    offered = session.preview("pick one", options=TurnOptions(share=share)).tools
    picks = [each["function"] for each in offered if each["function"]["name"] == "pick"]
    assert [list(each["parameters"]["properties"]) for each in picks] == parameters
    assert "north" not in json.dumps(picks)


# -- what asks a model about a failure


class Keeping(RunHooks):
    """Hooks that keep what the schema keeps."""

    def shared(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        return shared(outcome, Share.schema, Step(call.function.name))


class Listening:
    """A classifier that hears what it is told, as one that asks a model would send it on."""

    def __init__(self) -> None:
        self.heard = ""

    async def classify(
        self, trajectory: Sequence[made.Step], task: str = "", *, run: TriageContext | None = None
    ) -> FailureType:
        self.heard += repr(list(trajectory))
        return FailureType.UNKNOWN


async def test_model_classifier_sees_no_more_than_model() -> None:
    classifier = Listening()
    model = ScriptedModel([code("raise OSError('qv' + 'xz')"), DONE])
    agent = Agent(model, classifier=classifier, hooks=Keeping(), suspension_secret="s")
    await agent.ask("go on")
    assert "OSError" in classifier.heard
    assert "qvxz" not in classifier.heard


# -- what errors say


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("KeyError", "", "KeyError"),
        ("MergeError", "", "MergeError"),
        ("Mine", "class Mine(Exception): ...\nraise Mine", "Mine"),
        ("secret", "raise type(v, (Exception,), {})", "Exception"),
    ],
)
def test_class_named_after_value_is_withheld(name: str, code: str, told: str) -> None:
    assert kind_of(name, code) == told


SHAPES: Sequence[dict[str, Any]] = (
    {"type": "figure", "name": "chart", "title": "secret", "description": "secret"},
    {"type": "primitive", "name": "a", "python_type": "list", "text": "['secret']"},
    {"type": "something new", "secret": "secret", "text": "secret"},
)


@pytest.mark.parametrize("summary", SHAPES)
def test_unknown_content_is_withheld(summary: dict[str, Any]) -> None:
    assert "secret" not in json.dumps(shape_of(summary))
