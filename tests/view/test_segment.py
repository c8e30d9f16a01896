"""A stretch of a turn as it is read: the answer first, the work in one fold."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from markup import SCROLLS, WRAPS, Parsed
from record_events import (
    FRAME,
    RUNS,
    asked_model,
    code,
    failing,
    figure,
    published,
    question,
    started,
    trouble,
)

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.choices import APPROVAL, ids_of, labels_of
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.view.blocks import (
    EndBlock,
    FigureBlock,
    QuestionBlock,
    ReplyBlock,
    StepBlock,
    lasting,
)
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import VEGALITE_MIME, figure_bundle, segment_bundles
from parsimony_kernel.view.outline import Segment, segment_of
from parsimony_kernel.view.parts import format_column, table_of
from parsimony_kernel.view.plain_text import record_of, text_of

DONE = ev.RunCompleted(summary="Gentoo is heaviest, 5,076 g.", variables=("mean_mass",))


def frame(names: Sequence[str], rows: Sequence[Sequence[str]], dtype: str = "float64") -> Any:
    return {
        "type": "dataframe",
        "rows": len(rows),
        "columns": [{"name": name, "dtype": dtype} for name in names],
        "preview_columns": list(names),
        "preview": [list(row) for row in rows],
    }


def segment(*events: ev.AgentEvent, **options: bool) -> Segment:
    return segment_of(lasting(replay([started("mean mass"), *events]).blocks), **options)


def words(found: Segment) -> tuple[str, str]:
    """What is read first, and what stands in the fold."""
    return text_of(found.head), text_of(found.work, summary=found.summary)


def html_of(found: Segment, number: int) -> str:
    """One of the outputs as HTML."""
    return str(segment_bundles(found)[number][0]["text/html"])


def test_answer_then_table_then_closed_work() -> None:
    table = frame(["mass"], [["5076.02"], ["3700.66"]])
    head, work = words(segment(*code("df.mean()", stdout="noise", outputs=[table]), DONE))
    order = [head.index(each) for each in ("heaviest", "5,076.02")]
    assert order == sorted(order)
    for each in ("mean mass", "noise", "df.mean()"):
        assert each not in head
    assert work.startswith("1 step · mean_mass")
    assert "df.mean()" in work
    assert "mean mass" not in work
    assert "5,076" not in work


def test_output_is_in_chronological_order() -> None:
    first, second = frame(["first"], [["1"]]), frame(["second"], [["2"]])
    printed: dict[str, Any] = {
        "stdout": "before\nbetween\nbehind\n",
        "printed_before": [7, 15],
        "outputs": [first, second],
    }
    work = words(segment(*code(**printed), question()))[1]
    order = [work.index(each) for each in ("before", "first", "between", "second", "behind")]
    assert order == sorted(order)
    for odd in ({"truncated": True}, {"stdout": "before\n[redacted]behind\n"}):
        work = words(segment(*code(**{**printed, **odd}), question()))[1]
        assert work.index("behind") < work.index("first")
    long = {**printed, "stdout": "a" * 3_000 + "\nb\nc\n", "printed_before": [3_001, 3_003]}
    assert "left out" not in words(segment(*code(**long), question()))[1]


def test_fold_names_its_own_variables() -> None:
    asked = [*code(changed=["a"]), ev.StateSnapshot(iteration=1, variables=("a",)), question()]
    done = ev.RunCompleted(summary="Done.", variables=("a", "b"))
    again = [started(reply="1"), *code("b = 1", "c2", changed=["b"]), done]
    blocks = lasting(replay([started(), *asked, *again]).blocks)
    for part, told in ((blocks[:3], "1 step · a"), (blocks[3:], "1 step · b")):
        assert text_of([], summary=segment_of(part).summary) == told
    assert text_of([], summary=segment_of(blocks).summary) == "2 steps · a, b"


def test_inputs_are_told_for_read_only_cell() -> None:
    read = started(shared=("variables with samples: df",))
    found = segment_of(lasting(replay([read, asked_model(), question()]).blocks))
    assert "Read from your notebook: variables with samples: df" in words(found)[1]


def test_chart_replaces_table() -> None:
    found = segment(*code(outputs=[FRAME, figure()]), DONE)
    assert found.figure is not None
    assert "2001" not in words(found)[0]
    assert "2001" in words(found)[1]


def drawn(title: str) -> dict[str, Any]:
    return {**figure({"mark": "bar", "title": title}), "title": title, "description": f"b {title}"}


def made(name: str, output: dict[str, Any]) -> dict[str, Any]:
    """The summary of a variable that this output shows."""
    return {k: v for k, v in output.items() if k not in ("spec", "preview")} | {"name": name}


@pytest.mark.parametrize(
    ("summary", "first", "further"),
    [
        ("Both are done.", "Rest", "`load`"),
        ("`load` and `rest` have them.", "Load by hour", "`rest`"),
        ("The load by hour, and what is left in `rest`.", "", "`rest`"),
        ("See `rest.show()`, then `load`.", "Rest", "`load`"),
        ("`unload` and load.", "Rest", "`load`"),
    ],
)
def test_answer_names_the_chart_that_comes_first(summary: str, first: str, further: str) -> None:
    shown = [drawn("Load by hour"), drawn("Rest")]
    variables = [made(name, each) for name, each in zip(("load", "rest"), shown, strict=True)]
    done = ev.RunCompleted(summary=summary, variables=("load", "rest"))
    found = segment(*code(outputs=shown, variables=variables), done)
    assert found.figure is not None
    assert found.figure.title == first
    told = f"Also drawn, in the steps below: {further.strip('`')}"
    assert words(found)[0].splitlines()[-1] == told
    assert ("Rest" if first != "Rest" else "Load by hour") in words(found)[1]


@pytest.mark.parametrize(
    ("summary", "rows", "beside", "is_named"),
    [
        ("All is in `sums.csv`.", 12, False, True),
        ("All is in `sums`.", 12, True, True),
        ("All is in `sums`.", 13, True, False),
        ("All is in `sums`.", 300, True, False),
        ("All is in sums.", 12, True, False),
        ("All is in sums.", 12, False, False),
    ],
)
def test_answer_names_the_table_that_comes_first(
    summary: str, rows: int, beside: bool, is_named: bool
) -> None:
    sums, rest = frame(["mass"], [["5076.02"]] * rows), frame(["left"], [["1"]])
    charts = [drawn("Load")] if beside else []
    steps = code(outputs=[sums, rest, *charts], variables=[made("sums", sums)])
    head = words(
        segment(*steps, *code("y = 2", "c2", stdout="checked"), ev.RunCompleted(summary=summary))
    )[0]
    assert ("5,076.02" in head) is is_named
    assert "left" not in head


def test_fold_names_tables_charts_and_models_first() -> None:
    kinds = {"name": "str", "sheets": "dict", "gbm": "GradientBoosting"}
    simple = [{"type": "primitive", "name": n, "python_type": t} for n, t in kinds.items()]
    names = ("name", "sheets", "gbm", "table")
    steps = code(variables=[*simple, made("table", frame(["a"], [["1"]]))], changed=names)
    done = segment(*steps, ev.RunCompleted(summary="Done.", variables=names))
    for found in (done, segment(*steps, question())):
        assert text_of([], summary=found.summary) == "1 step · gbm, table, name, sheets"


def test_no_fold_without_work() -> None:
    assert segment(asked_model(), DONE).work == ()


def test_waiting_step_is_shown_with_question() -> None:
    begun, ended = code("drop()")
    waits = ended.model_copy(update={"ok": None, "result": {"waiting": "approval"}})
    told = started(notice="From this turn on, requests are sent to b.")
    found = segment_of(lasting(replay([told, begun, waits, question()]).blocks))
    # The notice stands above: nothing comes between the question, its code and the buttons.
    assert [each.kind for each in found.head] == ["notes", "question", "step"]
    assert "drop()" in words(found)[0]
    assert found.work == ()


def test_newest_step_is_shown_while_running() -> None:
    found = segment_of(replay([started(), *code("a"), code("b", "c2")[0]]).blocks)
    first, second = found.head
    assert "Step 2 is running" in text_of([first])
    assert second.label == "Step 2"


def test_newest_step_is_shown_after_an_answer_too() -> None:
    replied = [question(), started(reply="temp_min"), code("b", "c2")[0]]
    found = segment_of(replay([started(), *code("a"), *replied]).blocks)
    labels = [each.label for each in found.head[1:]]
    assert labels == ["Step 2", "Question"]
    assert text_of([], summary=found.summary) == "1 step"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (trouble(attempt=2), "Retried twice: the provider is busy"),
        (trouble().model_copy(update={"fallback": "b"}), "Went on with b: the provider is busy"),
        (ev.BudgetWarning(guard="cost", used=4, limit=5), "Most of the cost budget is used."),
    ],
)
def test_costly_recovery_is_one_line(event: ev.AgentEvent, line: str) -> None:
    assert line in words(segment(event, DONE))[0].splitlines()


def test_repaired_step_is_silent_above_fold() -> None:
    failed = failing("1/0", error="x", message="zero")
    head, work = words(segment(*failed, *code("1/1", "c2"), DONE))
    assert "zero" not in head
    assert "zero" in work


def test_approval_names_its_target_once_beside_the_code() -> None:
    asked = QuestionBlock(key="q", question="May it?", context="Line 1 writes outside: ../a.csv.")
    waits = StepBlock(key="s", number=1, tool="run_code", tool_type="code", state="waiting")
    for purpose, told in (("Write df to ../a.csv", "Run code"), ("Save the sums", None)):
        held = replace(waits, purpose=purpose)
        head = text_of(segment_of([held, asked]).head)
        assert f"Step 1 · {told or purpose} · waiting" in head
        assert head.count("../a.csv") == 1


def test_approval_marks_the_lines_of_code_that_it_counts() -> None:
    said = "Line 2 starts another program: a. b. Line 4 writes outside: ../a.csv. Line 9 ends."
    code = "import os\nos.system('a')\nx = 1\ndf.to_csv('../a.csv')"
    waits = StepBlock(key="s", number=1, tool="run_code", code=code, state="waiting")
    late = "It took too long. The code reaches outside: Line 2 ends: a. Line 4 writes: b."
    shown = [("", "Every step is asked about."), ("▸", said), ("▸", late)]
    for mark, context in shown:
        asked = QuestionBlock(key="q", question="May it?", context=context)
        lines = text_of(segment_of([waits, asked]).head).splitlines()
        at = next(number for number, line in enumerate(lines) if "import os" in line)
        marked = [line.strip()[0] == "▸" for line in lines[at : at + 4]]
        assert marked == ([False, True, False, True] if mark == "▸" else [False] * 4)


def test_declined_step_says_where_it_was_declined_that_it_was_not_run() -> None:
    asked = QuestionBlock(key="q", question="May this code run?", choices=labels_of(APPROVAL))
    for chosen, told in enumerate(("", "", ": it was not run")):
        told = f"{asked.choices[chosen]} (you chose){told}\n"
        answered = replace(asked, reply=asked.choices[chosen], chosen=chosen)
        assert f"May this code run? → {told}" in record_of([answered]) + "\n"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Which column of `weather` do you mean by 'temperature'?", "temperature"),
        ("Which date do you mean for '2024'?", "2024"),
        ("What do I do with rows of 'x.csv'?", "What do I do with rows of 'x.csv'?"),
        ("Which file do I delete: 'raw.csv'?", "Which file do I delete: 'raw.csv'?"),
        ("Which of 'a' and 'b' is it?", "Which of 'a' and 'b' is it?"),
        ("Which of O'Neill's columns?", "Which of O'Neill's columns?"),
        ("May 'x.csv' be written?", "May 'x.csv' be written?"),
    ],
)
def test_answered_question_names_what_it_was_about(question: str, told: str) -> None:
    asked = QuestionBlock(key="q", question=question, choices=("one", "two"))
    answered = record_of([replace(asked, reply="two", chosen=1)])
    assert f"{told} → two (you chose)" in " ".join(answered.split())
    assert ("`" in question) <= ("weather" not in answered)


def test_answered_question_is_one_line() -> None:
    blocks = lasting(replay(RUNS["answered"]).blocks)
    text = record_of(blocks)
    assert "Which column of df? → temp_min (you chose)" in text
    assert text.count("temp_min") == 2  # and in the answer itself
    answer, line, gone = (text_of([each]) for each in segment_of(blocks).head)
    assert "temp_min" in answer
    assert line == "Which column of df? → temp_min (you chose)"
    assert gone.startswith("No longer in the notebook")
    assert "Your answer: temp_min" in text_of(segment_of(blocks[2:]).head)


def test_housekeeping_steps_are_hidden() -> None:
    begun = ev.ToolEvent(tool_name="plan", tool_call_id="p", tool_type="plan", arguments={"a": 1})
    ended = begun.model_copy(update={"completed": True, "ok": True, "result": {"result": {}}})
    assert segment(begun, ended, DONE).work == ()


@pytest.mark.parametrize(("model", "count"), [("offline", 0), ("openai/gpt-5", 1)])
def test_usage_is_shown_for_paid_model(model: str, count: int) -> None:
    begun = started().model_copy(update={"model": model})
    work = segment_of(replay([begun, *code(), DONE]).blocks).work
    assert [each.kind for each in work].count("footer") == count


def test_no_line_appears_twice() -> None:
    for name, events in RUNS.items():
        lines = [each for each in record_of(lasting(replay(events).blocks)).splitlines() if each]
        assert len(lines) == len(set(lines)), name


def test_turn_has_three_outputs_and_one_stylesheet() -> None:
    """In place stands what a page needs that takes no style sheet of a notebook, nothing else."""
    for events in RUNS.values():
        found = segment_of(lasting(replay(events).blocks))
        outputs = segment_bundles(found)
        markup = "".join(str(data.get("text/html", "")) for data, _ in outputs)
        parsed = Parsed(markup)
        assert len(parsed.all("style")) == 1
        assert {attributes.get("style", WRAPS) for _, attributes in parsed.tags} <= {WRAPS, SCROLLS}


def test_only_one_fold_and_it_is_closed() -> None:
    found = segment(*code("x = 1\n" * 60, stdout="a\n" * 60, outputs=[FRAME]), DONE)
    assert Parsed(html_of(found, 2)).all("details") == [{"class": "pk-fold"}]


def test_table_turn_is_under_25_kilobytes() -> None:
    names = [f"a_column_{at}" for at in range(9)]
    wide = frame(names, [[f"{row * at}.25" for at in range(9)] for row in range(40)])
    source = "\n".join(f"step_{at} = df.groupby('x')['y'].mean()" for at in range(12))
    found = segment(
        *code(source, outputs=[wide]), *code(source, "c2", stdout="x\n" * 20, outputs=[wide]), DONE
    )
    assert len(json.dumps(segment_bundles(found))) < 25_000


@pytest.mark.parametrize(
    ("name", "dtype", "cells", "shown"),
    [
        ("mass", "float64", ["5076.02", "3700.66"], ["5,076.02", "3,700.66"]),
        ("mean", "float64", ["5076.016", "3700.662"], ["5,076", "3,701"]),
        ("mean", "float64", ["46.1333", "7.5"], ["46.13", "7.50"]),
        ("gap", "float64", ["2.0", "", "3.0"], ["2", "–", "3"]),
        ("total", "float64", ["1.69852e+06", "12.5"], ["1,698,520", "12"]),
        ("v", "float64", ["2820.0", "-3.7513", "4.8612"], ["2,820.00", "-3.75", "4.86"]),
        ("p", "float64", ["0.000123", "0.5"], ["0.0001", "0.5000"]),
        ("sold", "int64", ["1234567", "3"], ["1,234,567", "3"]),
        ("year", "int64", ["2001", "2002"], ["2001", "2002"]),
        ("churn_no", "int64", ["12345"], ["12,345"]),
        ("No", "int64", ["12345"], ["12,345"]),
        ("Order No", "int64", ["10000", "10001"], ["10000", "10001"]),
        ("customer_id", "int64", ["98101", "98102"], ["98101", "98102"]),
        ("zip", "string", ["00501", "98102"], ["00501", "98102"]),
        ("name", "string", ["a", "1.0"], ["a", "1.0"]),
        ("bad", "float64", ["inf", "1e999"], ["inf", "1e999"]),
    ],
)
def test_column_has_one_format(name: str, dtype: str, cells: list[str], shown: list[str]) -> None:
    assert format_column(name, dtype, cells)[0] == shown


@pytest.mark.parametrize(
    ("rows", "columns", "caption", "note"),
    [
        (2, 1, "2 rows, 1 column", ""),
        (None, 1, "rows not counted, 1 column", "… 10 more rows"),
        (1, 2, "1 row, 2 columns", ""),
        (344, 1, "344 rows, 1 column", "… 334 more rows"),
        # Only where it saves at least five rows.
        (14, 42, "14 rows, 42 columns", "… 2 more columns"),
        (15, 42, "15 rows, 42 columns", "… 5 more rows, 2 more columns"),
        (12, 2, "series, 12 values", ""),
    ],
)
def test_table_shows_ten_rows_and_counts_rest(
    rows: int | None, columns: int, caption: str, note: str
) -> None:
    names = [f"c{at}" for at in range(columns)]
    known = min(rows or 20, 20)
    given = frame(names, [["1"] * columns] * known) | {"rows": rows}
    given["kind"] = "series" if "series" in caption else "table"
    table = table_of(DataFrameObject.model_validate(given))
    assert (table.caption, table.note) == ((caption,), note)
    assert len(table.rows) == (10 if "more row" in note else known)


def test_published_report_names_its_page() -> None:
    report = published().model_copy(
        update={"kind": "report", "title": "Rain", "page": "../reports/rain.html"}
    )
    found = segment(report, DONE)
    assert "Published: report Rain (open ../reports/rain.html)" in words(found)[0]
    assert Parsed(html_of(found, 0)).all("a") == [{"href": "../reports/rain.html"}]


@pytest.mark.parametrize(
    ("words", "title", "is_drawn"),
    [
        ("Distribution of wind. Saved as `wind`.", "distribution of wind", False),
        ("Most of the wind is weak.", "Distribution of wind", True),
        ("Sales rose.", "Sales", True),
    ],
)
def test_chart_title_in_the_answer_is_not_drawn_again(
    words: str, title: str, is_drawn: bool
) -> None:
    chart = FigureBlock(1, title, "a bar chart", {"mark": "bar", "title": title})
    end = EndBlock("result", words)
    figure = segment_of([chart, end]).figure
    assert figure is not None
    assert figure.spec == {"mark": "bar", **({"title": title} if is_drawn else {})}
    assert (title in record_of([chart, end]).removeprefix(words)) is is_drawn


def test_follow_up_commands_are_in_fold() -> None:
    head, work = words(segment(*code(), DONE))
    assert "%agent undo" in work
    assert "%agent undo" not in head
    assert "%agent" not in words(segment(*code(), question()))[1]
    # `%agent code` passes a refusal over.
    unable = ev.Handoff(rationale="It knows no 'csv'.", blockers=[], suggested_next_steps=[])
    assert "%agent" not in words(segment(*code(), unable))[1]


@pytest.mark.parametrize(
    ("spec", "follows"),
    [
        ({}, True),
        ({"config": {"view": {"continuousWidth": 300}}}, True),
        ({"background": "white"}, False),
        ({"config": {"background": "#222"}}, False),
        ({"config": "dark"}, True),
        # An SVG would load what a colour names, whoever wrote it; and it is slow with many marks.
        ({"mark": {"type": "bar", "color": "url(https://evil.example/x)"}}, False),
        ({"data": {"values": [{"c": "u\\72l(https://evil.example/x)"}]}}, False),
        ({"encoding": {"color": {"value": {"expr": "'u' + 'rl(//evil.example)'"}}}}, False),
        ({"transform": [{"calculate": "'u' + 'rl(//evil.example)'", "as": "c"}]}, False),
        ({"data": {"values": [{"n": n} for n in range(30_000)]}}, False),
    ],
)
def test_chart_uses_page_background_by_default(spec: dict[str, Any], follows: bool) -> None:
    _, metadata = figure_bundle(FigureBlock(1, spec={"mark": "bar", **spec}))
    options = metadata[VEGALITE_MIME]["embed_options"]
    assert ("config" in options, "renderer" in options) == (follows, follows)
    assert options["actions"]["editor"] is False


def test_a_picture_that_the_front_end_makes_meanwhile_is_small() -> None:
    """JupyterLab saves one of its own as long as there is none of ours."""
    chart = FigureBlock(1, spec={"mark": "bar"})
    painted = replace(chart, png_base64="iVBORw0KGgo=")
    told = [figure_bundle(each)[1][VEGALITE_MIME]["embed_options"] for each in (chart, painted)]
    assert [each.get("scaleFactor") for each in told] == [0.5, None]


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("It is warm. Read 'which' as rain.", "It is warm."),
        ("Read 'which' as rain. It is warm.", "It is warm."),
        # Of a later use, of another word, of another choice, or all there is.
        ("It is warm. Read 'which' as rain, as before.", None),
        ("It is warm. Read 'wind' as rain.", None),
        ("It is warm. Read 'which' as snow.", None),
        ("Read 'which' as rain.", None),
    ],
)
def test_choice_is_told_once(summary: str, told: str | None) -> None:
    asked = [
        started(),
        question(question="What do you mean by 'which'?", choices=("snow", "rain")),
        started(reply="rain", choice=ids_of(("snow", "rain"))[1]),
        ev.RunCompleted(summary=summary, variables=()),
    ]
    found = segment_of(lasting(replay(asked).blocks))
    assert words(found)[0].splitlines()[0] == (told or summary)
    assert "→ rain (you chose)" in words(found)[0]


@pytest.mark.parametrize("said", ["KeyError: 'a' at line 1: df['a']", "Something else"])
def test_failure_reason_is_told_once(said: str) -> None:
    failed = failing("df['a']", message="KeyError: 'a'")
    mended = trouble(FailureKind.tool_error).model_copy(
        update={"failure": Failure(FailureKind.tool_error, said), "message": said}
    )
    work = words(segment(*failed, mended, *code("df"), DONE))[1]
    assert "A step failed · trying again" in work
    assert work.count("KeyError: 'a'") == 1
    assert (said in work) is (said == "Something else")


def test_lost_kernel_is_above_the_fold() -> None:
    lost = Failure(FailureKind.kernel_invalidated, "The kernel died.")
    event = trouble().model_copy(update={"failure": lost, "action": "handoff"})
    failed = failing("f()", message="The kernel died.")
    assert "The kernel died." in words(segment(*failed, event, DONE))[0]


def test_variable_that_the_resumed_turn_made_again_is_not_told_as_gone() -> None:
    reply = ReplyBlock(key="r", reply="yes", gone=("x", "y"))
    again = StepBlock(key="s", number=1, tool="run_code", state="done", made=("x",))
    told = record_of([reply, again])
    assert "No longer in the notebook since the question: y" in told
    assert "question: x" not in told
