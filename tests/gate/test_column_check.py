"""Code asks frames for columns that they have; what is not certain is not said."""

import random
import string
import sys
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import Action, Failure, FailureKind, FailureType, RefusalError
from parsimony_kernel.gate.column_check import columns_exist
from parsimony_kernel.gate.stages import Attempt
from tests.tiers import every

TOOLS = termination_tools()
CARS = pd.DataFrame(
    {
        "Name": ["a", "b", "c", "d", "e"],
        "Origin": ["USA", "Japan", "USA", "Japan", "Europe"],
        "Horsepower": [130, 95, 150, 88, 76],
        "unit_price": [1.0, 2.0, 3.0, 4.0, 5.0],
        "list_price": [2.0, 3.0, 4.0, 5.0, 6.0],
        "Sales Total": [1, 2, 3, 4, 5],
    }
)
WEATHER = pd.DataFrame(
    {"temp_max": [12.8, 10.6], "temp_min": [5.0, 2.8], "temp_mean": [8.9, 6.7], "wind": [4.7, 4.5]},
    index=pd.Index(["2012-01-01", "2012-01-02"], name="day"),
)


def check(code: Any, said: str = "", **variables: Any) -> Failure | None:
    bound: Mapping[str, Any] = variables or {"cars": CARS, "weather": WEATHER}
    stage = columns_exist(lambda: bound, lambda: said)
    return stage(Attempt("run_code", {"code": code}, TOOLS))


def refused(code: Any, said: str = "", **variables: Any) -> Failure:
    failure = check(code, said, **variables)
    assert failure is not None
    return failure


MISSING = [
    'cars["zzz"]',
    'cars[["Name", "zzz"]]',
    'cars[["Name", "zzz"]].head()',
    'x = cars["zzz"].mean()',
    'cars.groupby("zzz").size()',
    'cars.groupby(["Origin", "zzz"])["Horsepower"].mean()',
    'cars.groupby(by="zzz")["Horsepower"].mean()',
    'cars.groupby("Origin")["zzz"].mean()',
    'cars.groupby("Origin")[["Horsepower", "zzz"]].mean()',
    'cars.groupby("Origin").agg({"zzz": "mean"})',
    'cars.groupby("Origin").agg(m=("zzz", "mean"))',
    'cars.groupby("Origin").agg(m=pd.NamedAgg(column="zzz", aggfunc="mean"))',
    'cars.sort_values(by=["Origin", "zzz"], ascending=False)',
    'cars.set_index("zzz")',
    'cars.drop_duplicates(subset=["zzz"])',
    'cars.drop(columns=["zzz"])',
    'cars.nlargest(3, "zzz")',
    'cars.pivot_table(index="Origin", values="zzz")',
    'cars.loc[:, "zzz"]',
    'cars.loc[cars["Horsepower"] > 100, ["Name", "zzz"]]',
    'cars[(cars["Horsepower"] > 1) & (cars["zzz"] > 1)]',
    'cars[cars["Horsepower"] > 100]["zzz"]',
    'cars.query("Horsepower > 100").groupby("zzz").size()',
    'cars.dropna().sort_values("Name").head(3)["zzz"]',
    'cars["zzz"] += 1',
    'print(cars["zzz"].mean(), len(cars))',
    "f\"{cars['zzz'].mean():.2f}\"",
    'cars\ncars.describe()\nprint(len(cars))\ncars["zzz"]',
    'import altair as alt\nc = alt.Chart(cars).mark_bar()\ncars["zzz"]',
    'other = pd.DataFrame({"k": [1]})\nother["k2"] = 2\ncars["zzz"]',
    'm = cars.merge(weather, how="cross")\ncars["zzz"]',
    'for each in cars["zzz"]:\n    pass',
]


def run(code: str) -> BaseException | None:
    """What ``code`` raises on copies of the frames."""
    cars = CARS.copy(deep=True)
    namespace = {
        "pd": pd, "cars": cars, "same": cars, "weather": WEATHER.copy(deep=True), "name": "wind",
    }  # fmt: skip
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code, namespace)
        except Exception as exc:
            return exc
    return None


@pytest.mark.parametrize("code", MISSING)
def test_missing_column_is_named_before_code_raises(code: str) -> None:
    failure = refused(code)
    assert failure.kind is FailureKind.tool_error
    assert failure.type is FailureType.SCHEMA_MISMATCH
    assert failure.refusal is RefusalError.validation_failed
    assert "`cars` has no column 'zzz'" in failure.explanation
    assert "'Horsepower'" in failure.explanation
    details = failure.metadata["envelope"]["details"]
    assert details["column"] == "zzz"
    assert details["columns"] == list(CARS.columns)
    assert "did_you_mean" not in failure.metadata["envelope"]
    raised = run(code)
    assert isinstance(raised, KeyError)
    assert "zzz" in str(raised)


@pytest.mark.parametrize("code", [code for code in MISSING if "NamedAgg" not in code])
def test_existing_column_passes(code: str) -> None:
    assert check(code.replace("zzz", "Horsepower")) is None


UNSAID = [
    'cars = pd.read_csv("x.csv")\ncars["zzz"]',
    'cars.columns = list("abcdef")\ncars["zzz"]',
    'cars.loc[cars["Horsepower"] > 1, "zzz"] = 1\ncars["zzz"]',
    'cars.assign(zzz=1).sort_values("zzz")',
    'add_features(cars)\ncars["zzz"]',
    'prepare()\ncars["zzz"]',
    'print(add_features(cars), cars["zzz"])',
    'twin = cars\ntwin["zzz"] = 1\ncars["zzz"]',
    'def f():\n    cars["zzz"] = 1\ncars.pipe(f)\ncars["zzz"]',
    "exec(\"cars['zzz']\")",
    '%time cars["zzz"]',
    'cars.pipe(add_features)\ncars["zzz"]',
    'globals()["cars"] = other\ncars["zzz"]',
    'def f(cars):\n    return cars["zzz"]',
    'g = lambda cars: cars["zzz"]',
    '[cars["zzz"] for cars in frames]',
    'with suppress(KeyError):\n    cars["zzz"]',
    'x = cars["zzz"] if "zzz" in cars else None',
    '"zzz" in cars and cars["zzz"].mean()',
    'assert "zzz" not in cars, cars["zzz"]',
    'for name in []:\n    cars["zzz"]',
    "cars[name]",
    'cars[f"{name}"]',
    'cars["Name"]["zzz"]',
    'cars[name]["zzz"]',
    'cars["a" + name]["zzz"]',
    'cars.loc["zzz"]',
    'cars.reset_index()["index"]',
    'cars.groupby("Origin").size().reset_index(name="zzz").sort_values("zzz")',
    'cars.value_counts("Origin").reset_index()["count"]',
    'cars.drop(columns="zzz", errors="ignore")',
    'cars.merge(other, on="Name")["zzz"]',
    'cars.groupby(["v", "w", "x", "y", "z"]).size()',
    'cars.groupby("zzz", axis=1)',
    'cars["Name"].str["zzz"]',
    'from helpers import *\ncars["zzz"]',
    'unknown["zzz"]',
    'weather.groupby("day").mean()',
    'weather.sort_values("day")',
    'weather.reset_index()["day"]',
    "cars.horsepower",
    "%matplotlib inline\ncars['zzz']",
    "cars[",
    "",
    "\0",
    "(" * 5_000,
]


@pytest.mark.parametrize("code", UNSAID)
def test_uncertain_columns_are_not_reported(code: str) -> None:
    assert check(code) is None


LINES = [
    'cars["{}"]', 'cars[["{}", "Name"]].head(2)', 'cars.groupby("{}").size()',
    'cars.sort_values("{}").head()["{}"]', 'cars.loc[:, "{}"]', 'x = cars["{}"]; x["q"] = 1',
    'cars["{}"] = 1', 'cars.insert(0, "{}", 1)', 'same["{}"] = 2', 'cars.loc[0, "{}"] = 3',
    'other = cars; other["{}"] = 4', 'other = cars.copy(); other["{}"] = 5',
    'cars = cars.assign({}=6)', 'cars.assign({}=7)["{}"]', 'del cars["{}"]', 'cars.pop("{}")',
    'cars.rename(columns={{"Name": "{}"}}, inplace=True)', 'cars = weather', 'weather = cars',
    'cars = cars.rename(columns={{"Origin": "{}"}})', 'cars.columns = [*cars.columns[:-1], "{}"]',
    'if "{}" in cars:\n    cars["{}"]', 'try:\n    cars["{}"]\nexcept KeyError:\n    pass',
    'for each in [cars, weather]:\n    each["{}"] = 8', 'held = [cars]; held[0]["{}"] = 9',
    'def f():\n    cars["{}"] = 1', 'def f():\n    return cars["{}"]', "f = len", "f(cars)",
    'g = cars.insert; g(0, "{}", 1)', 'weather["{}"]', 'weather.reset_index()["{}"]',
    'cars.set_index("{}")["Name"]', 'cars.set_index("{}", inplace=True)', 'cars.update(weather)',
    'exec("cars[\'{}\'] = 1")', '(cars := cars.assign({}=1))["{}"]', '[c["{}"] for c in [same]]',
    'cars.groupby("Origin").agg({}=("Horsepower", "max"))["{}"]',
    'same.eval("{} = 1", inplace=True)',
]  # fmt: skip


@every(4)
def test_refusal_accounts_for_columns_code_adds_first(stride: int) -> None:
    """Programs made at random: each one that is refused fails for want of that very column."""
    draw = random.Random(11)
    refused = 0
    for _ in range(4_000 // stride):
        lines = [
            draw.choice(LINES).replace("{}", draw.choice(["zzz", "yyy", "Horsepower", "day"]))
            for _ in range(draw.randint(1, 4))
        ]
        code = "\n".join(lines).replace("{{", "{").replace("}}", "}")
        failure = check(code, cars=(cars := CARS.copy()), same=cars, weather=WEATHER)
        if failure is None:
            continue
        refused += 1
        # What is no KeyError is an earlier line of the program that fails by itself.
        assert isinstance(run(code), KeyError | ValueError | NameError | TypeError), code
    assert refused > 300 // stride


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("horsepower", "Horsepower"), ("horse_power", "Horsepower"), ("Horse Power", "Horsepower"),
        ("Horspower", "Horsepower"), ("sales_total", "Sales Total"), ("salesTotal", "Sales Total"),
        ("unitprice", "unit_price"), ("name", "Name"),
    ],
)  # fmt: skip
def test_single_close_match_is_suggested_not_substituted(asked: str, meant: str) -> None:
    failure = refused(f"cars[{asked!r}]")
    assert failure.kind is FailureKind.tool_error
    assert failure.metadata["envelope"]["did_you_mean"] == meant
    assert f"did you mean {meant!r}?" in failure.explanation
    assert failure.explanation.endswith("Nothing was run.")


PRICES, TEMPS = ["unit_price", "list_price"], ["temp_max", "temp_min", "temp_mean"]


@pytest.mark.parametrize(
    ("frame", "asked", "choices", "said"),
    [
        ("cars", "price", PRICES, ""),
        ("cars", "price", PRICES, "What is the total price?"),
        ("cars", "price", PRICES, "the PRICES, please"),
        ("cars", "price", PRICES, "the mean of Price\nall of them"),
        ("weather", "temperature", TEMPS, ""),
        ("weather", "temp", TEMPS, ""),
    ],
)
def test_several_close_matches_become_a_question(
    frame: str, asked: str, choices: list[str], said: str
) -> None:
    failure = refused(f"{frame}[{asked!r}].mean()", said)
    assert failure.kind is FailureKind.ambiguous_input
    assert failure.suggested_action is Action.ask_user
    assert failure.type is FailureType.UNKNOWN
    assert failure.refusal is RefusalError.validation_failed
    assert failure.metadata["question"] == f"Which column of `{frame}` do you mean by {asked!r}?"
    assert failure.metadata["choices"] == choices
    assert failure.metadata["envelope"]["details"]["choices"] == choices


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("What is the mean of unit_price?", "unit_price"),
        ("the unit price, please", "unit_price"),
        ("Compare list_price and unit_price", None),
        ("Which car is the cheapest?", None),
        ("go", None),
    ],
)
def test_stated_or_unmentioned_columns_are_not_asked_about(said: str, meant: str | None) -> None:
    failure = refused('cars["price"].mean()', said)
    assert failure.kind is FailureKind.tool_error
    assert failure.refusal is RefusalError.validation_failed
    details = failure.metadata["envelope"]["details"]
    assert details["choices"] == PRICES
    assert failure.metadata["envelope"].get("did_you_mean") == meant
    assert details.get("did_you_mean") == meant
    assert "question" not in failure.metadata
    assert ("choose one of" in failure.explanation) is (meant is None)


def test_spaced_words_match_column() -> None:
    sales = pd.DataFrame({"sales_2022": [1.0], "sales_2023": [2.0], "sales_2024": [3.0]})
    failure = refused('s["sales"].sum()', "What were the total sales in 2023?", s=sales)
    assert failure.kind is FailureKind.tool_error
    assert failure.metadata["envelope"]["did_you_mean"] == "sales_2023"


def test_all_missing_columns_are_reported_at_once() -> None:
    failure = refused('cars[["zzz", "horsepower", "Name"]]')
    details = failure.metadata["envelope"]["details"]
    assert [each["column"] for each in details] == ["zzz", "horsepower"]
    assert failure.metadata["envelope"]["did_you_mean"] == "Horsepower"


def test_wide_frame_is_listed_in_part() -> None:
    wide = pd.DataFrame({f"c{number}": [1] for number in range(5_000)})
    failure = refused('wide["zzz"]', wide=wide)
    assert len(failure.metadata["envelope"]["details"]["columns"]) == 40
    assert "and 4960 more" in failure.explanation
    assert len(failure.explanation) < 1_000


def test_aliases_of_one_frame_change_together() -> None:
    assert check('twin["zzz"] = 1\ncars["zzz"]', cars=CARS, twin=CARS) is None
    assert check('twin.pop("Name")\ncars["Name2"]', cars=CARS, twin=CARS) is None
    assert check('twin.head()\ncars["zzz"]', cars=CARS, twin=CARS) is not None


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]]),
        pd.DataFrame({("a", "b"): [1]}),
        pd.DataFrame([[1]], columns=pd.to_datetime(["2020-01-01"])),
        pd.Series({"a": 1}),
        {"a": 1},
        None,
    ],
    ids=["numbered", "levels", "dates", "series", "dict", "none"],
)
def test_special_labels_are_ignored(frame: Any) -> None:
    assert check('frame["zzz"]', frame=frame) is None


def test_polars_frame_is_read_without_importing_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    class DataFrame:
        columns = ("Horsepower", "Name")

        def __len__(self) -> int:
            return 3

    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=DataFrame))
    failure = refused('cars["horse_power"]', cars=DataFrame())
    assert failure.metadata["envelope"]["did_you_mean"] == "Horsepower"
    assert check('cars["Name"]', cars=DataFrame()) is None


def test_index_level_is_no_column_and_may_be_one_of_loc() -> None:
    levels = CARS.set_index(["Origin", "Name"])
    assert check('levels.loc["USA", "a"]', levels=levels) is None
    assert check('levels.groupby("Origin").size()', levels=levels) is None
    assert check('levels["Origin"]', levels=levels) is not None
    assert "no column 'day'" in refused('weather["day"]').explanation


def test_only_code_is_checked() -> None:
    stage = columns_exist(lambda: {"cars": CARS})
    other = Attempt("return_done", {"code": 'cars["zzz"]'}, TOOLS)
    assert stage(other) is None
    assert check(None) is None
    assert check(7) is None


def test_check_leaves_data_unchanged() -> None:
    before = CARS.copy(deep=True)
    for code in [*MISSING, *UNSAID]:
        check(code)
    pd.testing.assert_frame_equal(CARS, before)


@every(4)
def test_any_code_is_checked_without_error(stride: int) -> None:
    draw = random.Random(3)
    pieces = [
        "cars", '["zzz"]', ".groupby", '("zzz")', "=", "\n", "for x in ", "if 1: ", ".loc",
        "[:, 'q']", "lambda: ", ", ", "*", "**", "{", "}", "async ", "await ", "del ", ":=", "(",
        ")", ".agg(", "'a'", "inplace=True", "match x:\n case ", "[x for x in cars]", " ",
    ]  # fmt: skip
    for _ in range(3_000 // stride):
        text = "".join(draw.choice(pieces) for _ in range(draw.randint(1, 14)))
        if draw.random() < 0.2:
            text += "".join(draw.choice(string.printable) for _ in range(20))
        check(text)
