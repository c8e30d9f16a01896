"""What it says it understands, it does; and nothing of its grammar goes unsaid."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from offline_notebook import Turn, mark
from offline_publishing import PublishingNotebook

from parsimony_kernel.llm.offline.grammar import reporting
from parsimony_kernel.llm.offline.grammar.items import read_items
from parsimony_kernel.llm.offline.grammar.rules import Phrase
from parsimony_kernel.llm.offline.grammar.statement import RULES, SILENT
from parsimony_kernel.llm.offline.lexicon import LEXICON
from parsimony_kernel.llm.offline.phrases import as_markdown, help_steps, what_it_understands
from parsimony_kernel.llm.offline.words import tokenize

CARS = (
    "Name,Miles_per_Gallon,Horsepower,Weight_in_lbs,Year,Origin\n"
    "a,18,160,2900,1975-01-01,USA\nb,30,80,2000,1978-01-01,Japan\n"
    "c,25,95,2400,1981-01-01,Europe\nd,33,70,2100,1975-01-01,Japan\n"
)
PRICES = (
    "import pandas as pd\n"
    "df = pd.DataFrame({'date': ['2012-01-01', '2012-02-01'] * 2, 'symbol': list('aabb'),"
    " 'price': [1, 2, 3, 4.0], 'temp_max': [5, 6, 7, 8.0]})"
)
MARKS = {"line": "line", "bar": "bar", "scatter": "circle", "histogram": "bar"}


@pytest.mark.parametrize("phrase", what_it_understands(), ids=lambda p: p.example)
async def test_every_phrase_does_what_it_says(tmp_path: Path, phrase: Phrase) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/cars.csv").write_text(CARS)
    notebook = PublishingNotebook(tmp_path)
    priced = "price" in phrase.example or "temp_max" in phrase.example
    await notebook.run(
        PRICES if priced else "import pandas as pd\ncars = pd.read_csv('data/cars.csv')"
    )
    if phrase.example.startswith(("publish", "make a report", "write a report")):
        await notebook.ask("plot mean horsepower by origin")
    if phrase.makes == "refreshed":
        await notebook.ask(reporting.PHRASES[0].example)
    before = notebook.names
    reports = len(notebook.announced("report"))
    turn = await notebook.ask(phrase.example)
    assert turn.ending == "return_done", turn
    assert turn.errors == []
    made = {name: notebook[name] for name in notebook.names - before}
    if phrase.makes == "published report":
        assert len(notebook.announced("report")) == reports + 1
    elif phrase.makes == "refreshed":
        assert [a["artifact"] for a in notebook.called("refresh")] == ["Power by origin"]
        assert not made
    else:
        check(phrase, turn, made)


def check(phrase: Phrase, turn: Turn, made: Mapping[str, Any]) -> None:
    frames = [v for v in made.values() if isinstance(v, pd.DataFrame)]
    charts = [n for n in made if n.endswith("_chart")]
    match phrase.makes:
        case "variable" | "table":
            assert len(charts) == 0
            assert len(frames) >= 1
            assert all(len(f) > 0 for f in frames)
        case "number":
            assert [isinstance(v, float) for v in made.values()] == [True]
            assert str(next(iter(made.values()))) in turn.summary
        case "view":
            assert not made
            assert turn.codes[-1].endswith(".head(10)")
        case "published chart":
            assert [p["kind"] for p in turn.published] == ["chart"]
            assert not made
        case "published dataset":
            assert [p["kind"] for p in turn.published] == ["dataset"]
            assert isinstance(turn.published[0]["value"], pd.DataFrame)
        case kind:
            assert [mark(made[chart]) for chart in charts] == [MARKS[kind]]
            binned = any(set(f.columns) == {"start", "end", "count"} for f in frames)
            assert binned is (kind == "histogram")
    assert bool(turn.published) is phrase.makes.startswith("published")


@pytest.mark.parametrize("kind", sorted(RULES))
def test_the_phrase_of_a_rule_shows_that_rule(kind: str) -> None:
    columns = [*CARS.partition("\n")[0].split(","), "price", "symbol", "temp_max"]
    items = read_items(tokenize(RULES[kind].phrase.example), columns)
    assert kind in {item.kind for item in items}


def test_every_word_with_a_meaning_has_a_rule() -> None:
    # Loading and publishing are clauses of their own, with phrases of their own.
    clauses = {
        "load", "publish", "called", "unsupported", "report", "refresh", "new_data",
    }  # fmt: skip
    assert {kind for kind, _ in LEXICON.values()} == (set(RULES) | SILENT | clauses) & {
        kind for kind, _ in LEXICON.values()
    }


def test_the_table_is_markdown_with_a_row_for_each_phrase() -> None:
    lines = as_markdown().splitlines()
    assert lines[1] == "| --- | --- |"
    assert len(lines) == len(what_it_understands()) + 2
    assert all(line.count("|") == 3 for line in lines)


def test_help_names_what_it_does_and_how_to_set_a_model() -> None:
    examples = {phrase.example for phrase in what_it_understands()}
    shown = [step for step in help_steps() if step.startswith("Try for instance")]
    assert len(shown) == 4
    assert all(any(example in step for example in examples) for step in shown)
    assert "%agent model" in help_steps(short=True)[-1]
