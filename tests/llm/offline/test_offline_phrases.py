"""What it says it understands, it does; and nothing of its grammar goes unsaid."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from offline_notebook import Turn, mark
from offline_publishing import PublishingNotebook

from parsimony_kernel.offline.codegen.cells import DISTINCT, LOOK, SEARCH
from parsimony_kernel.offline.grammar import deriving, joining, reporting
from parsimony_kernel.offline.grammar.items import read_items
from parsimony_kernel.offline.grammar.rules import Phrase
from parsimony_kernel.offline.grammar.statement import RULES, SILENT
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON, MODULES
from parsimony_kernel.offline.phrases import as_markdown, help_steps, what_it_understands
from parsimony_kernel.offline.transcript import bound_names
from parsimony_kernel.offline.words import tokenize
from tests.tiers import sampled

CARS = (
    "Name,Miles_per_Gallon,Horsepower,Weight_in_lbs,Year,Origin\n"
    "a,18,160,2900,1975-01-01,USA\nb,30,80,2000,1978-01-01,Japan\n"
    "c,25,95,2400,1981-01-01,Europe\nd,33,70,2100,1975-01-01,Japan\n"
)
ORIGINS = "Origin,Continent\nUSA,America\nJapan,Asia\nEurope,Europe\n"
PRICES = (
    "import pandas as pd\n"
    "df = pd.DataFrame({'date': ['2012-01-01', '2012-02-01'] * 2, 'symbol': list('aabb'),"
    " 'price': [1, 2, 3, 4.0], 'temp_max': [5, 6, 7, 8.0]})"
)
MARKS = {"line": "line", "bar": "bar", "scatter": "circle", "histogram": "bar", "heat map": "rect"}


async def prepared(tmp_path: Path, phrase: Phrase) -> PublishingNotebook:
    """A notebook that holds what the phrase speaks of."""
    (tmp_path / "data").mkdir(parents=True)
    (tmp_path / "data/cars.csv").write_text(CARS)
    notebook = PublishingNotebook(tmp_path)
    said = " ".join((*phrase.after, phrase.example))
    priced = "price" in said or "temp_max" in said
    await notebook.run(
        PRICES if priced else "import pandas as pd\ncars = pd.read_csv('data/cars.csv')"
    )
    if phrase.example.startswith(("publish", "make a report", "write a report")):
        await notebook.ask("plot mean horsepower by origin")
    if phrase.makes == "refreshed":
        await notebook.ask(reporting.PHRASES[0].example)
    if "origins" in said:
        (tmp_path / "data/origins.csv").write_text(ORIGINS)
        await notebook.run("origins = pd.read_csv('data/origins.csv')")
    for request in phrase.after:
        assert (await notebook.ask(request)).ending == "return_done"
    return notebook


@pytest.mark.parametrize("phrase", what_it_understands(), ids=lambda p: p.example)
async def test_every_phrase_does_what_it_says(tmp_path: Path, phrase: Phrase) -> None:
    notebook = await prepared(tmp_path, phrase)
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
            assert {mark(made[chart]) for chart in charts} == {MARKS[kind]}
            binned = any(set(f.columns) == {"start", "end", "count"} for f in frames)
            assert binned is (kind == "histogram")
    assert bool(turn.published) is phrase.makes.startswith("published")


async def made_of(folder: Path, phrase: Phrase, request: str) -> list[tuple[str, object]]:
    """What a request calls, in order; code without its names. What only looks is left out."""
    notebook = await prepared(folder, phrase)
    earlier = len(notebook.calls)
    turn = await notebook.ask(request)
    assert turn.ending == "return_done", turn
    assert turn.errors == []
    looks = (f"{LOOK} ", f"{SEARCH} ", f"{DISTINCT} ")
    told: list[tuple[str, object]] = []
    named: dict[str, str] = {}
    for code, purpose in zip(turn.codes, turn.purposes, strict=True):
        if not purpose.startswith(looks):
            told.append(("run_code", without_names(code, named)))
    for name, arguments in notebook.calls[earlier:]:
        if name.startswith("return_") and name not in ("return_done", "return_unable"):
            told.append((name, {k: v for k, v in arguments.items() if k != "variable"}))
        elif name == "refresh":
            told.append((name, arguments))
    return told


def without_names(code: str, named: dict[str, str]) -> str:
    """Code where the variables that it binds are called by their number."""
    for name in bound_names(code):
        named.setdefault(name, f"made_{len(named)}")
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = named.get(node.id, node.id)
    return ast.unparse(tree)


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    """What the example of each phrase calls, once it has been played."""
    return {}


@pytest.mark.parametrize(
    ("phrase", "said"),
    sampled([(phrase, said) for phrase in what_it_understands() for said in phrase.paraphrases], 4),
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_a_paraphrase_leads_to_the_same_code(
    tmp_path: Path, examples: dict[str, Any], phrase: Phrase, said: str
) -> None:
    told = await made_of(tmp_path / "said", phrase, said)
    assert told
    if phrase.example not in examples:
        examples[phrase.example] = await made_of(tmp_path / "example", phrase, phrase.example)
    assert told == examples[phrase.example]


@pytest.mark.parametrize("phrase", what_it_understands(), ids=lambda p: p.example)
def test_every_phrase_can_be_said_in_three_other_ways(phrase: Phrase) -> None:
    assert len({*phrase.paraphrases} - {phrase.example}) >= 3


def test_no_phrase_of_the_lexicon_has_two_meanings() -> None:
    phrases = [phrase for words in MODULES for phrase in words.entries]
    assert len(phrases) == len(set(phrases)) > 500


def test_what_begins_a_clause_is_a_kind_of_item_of_the_same_words() -> None:
    for words in MODULES:
        kinds = {kind for kind, _ in (*words.entries.values(), *words.declined.values())}
        assert words.actions <= kinds


@pytest.mark.parametrize("kind", sorted(RULES))
def test_the_phrase_of_a_rule_shows_that_rule(kind: str) -> None:
    columns = [*CARS.partition("\n")[0].split(","), "price", "symbol", "temp_max"]
    items = read_items(tokenize(RULES[kind].phrase.example), columns)
    assert kind in {item.kind for item in items}


def test_every_word_with_a_meaning_has_a_rule() -> None:
    # Loading and publishing are clauses of their own, with phrases of their own.
    clauses = {
        *deriving.KINDS, *joining.KINDS,
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
