"""Judge the built-in model by the corpus: python -m tests.corpora.requests.judge [--only ID]."""

import argparse
import asyncio
import re
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2] / "llm/offline"))
from offline_notebook import Notebook, Turn, encodings, mark

HERE = Path(__file__).parent
TOLERANCE = 0.005
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")


def entries() -> list[dict[str, Any]]:
    """All requests, each with its file and the code that loads it rightly."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        corpus = tomllib.loads(path.read_text(encoding="utf-8"))
        found += [{**r, "file": corpus["file"], "load": corpus["load"]} for r in corpus["request"]]
    return found


def truths(entry: dict[str, Any]) -> list[Any]:
    """Every accepted answer."""
    scope: dict[str, Any] = {"pd": pd, "path": HERE / "files" / entry["file"]}
    exec(entry["load"], scope)
    return [eval(code, scope) for code in entry.get("python", [])]


def frame(value: Any) -> pd.DataFrame:
    """A table of a Series, with its index as columns where it has a meaning."""
    if isinstance(value, pd.Series):
        value = value.rename("value" if value.name in value.index.names else value.name or "value")
    plain = isinstance(value.index, pd.RangeIndex) or value.index.name is None
    if plain and (pd.api.types.is_integer_dtype(value.index)):
        return pd.DataFrame(value).reset_index(drop=True)
    named = pd.DataFrame(value)
    named.index.names = [n or f"key{i}" for i, n in enumerate(named.index.names)]
    clash = [n for n in named.index.names if n in named.columns]
    return named.reset_index(drop=False) if not clash else named.reset_index(drop=True)


def plain(column: pd.Series) -> np.ndarray[Any, Any]:
    """Numbers as floats, periods by their start, everything else as text."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return np.asarray(column, dtype=float)
    text = column.map(str).str.removesuffix(" 00:00:00")
    if len(text) and text.str.fullmatch(r"-?[\d.]+%").all():
        return np.asarray(text.str.rstrip("%"), dtype=float)
    return np.asarray(text, dtype=object)


def near(a: Any, b: Any) -> bool:
    """Equal within the tolerance; a share may be shown in percent."""
    if a.dtype != b.dtype:
        return False
    if a.dtype == object:
        return bool((a == b).all())
    return any(
        np.allclose(a * scale, b, rtol=TOLERANCE, atol=1e-9, equal_nan=True) for scale in (1, 100)
    )


def same_table(truth: Any, shown: Any) -> bool:
    """Are the truth's columns in the shown table, row for row, whatever the order?"""
    left, right = frame(truth), frame(shown)
    wide = isinstance(truth, pd.DataFrame)
    if len(left) != len(right) or (not wide and right.shape[1] > left.shape[1] + 2):
        return False
    a = [plain(left.iloc[:, i]) for i in range(left.shape[1])]
    b = [plain(right.iloc[:, i]) for i in range(right.shape[1])]
    if wide and set(left.columns) <= set(right.columns):
        both = (each[list(left.columns)].to_numpy().tolist() for each in (left, right))
        one, other = (sorted([*map(str, row)] for row in rows) for rows in both)
        if one == other:
            return True
    options = [
        [j for j, y in enumerate(b) if x.dtype == y.dtype and near(np.sort(x), np.sort(y))]
        for x in a
    ]
    for tried, chosen in enumerate(product(*options)):
        if tried > 200:
            return False
        # Text orders the rows first, then numbers: rounding must not reorder them.
        keys = sorted(range(len(a)), key=lambda i: a[i].dtype != object)
        first = sorted(range(len(left)), key=lambda r: [a[k][r] for k in keys])
        second = sorted(range(len(right)), key=lambda r: [b[chosen[k]][r] for k in keys])
        if all(near(a[k][first], b[chosen[k]][second]) for k in keys):
            return True
    return False


def same(truth: Any, shown: Any) -> bool:
    """Is what is shown the truth, and nothing unrelated beside it?"""
    table = (pd.DataFrame, pd.Series)
    if isinstance(truth, table):
        return isinstance(shown, table) and same_table(truth, shown)
    if isinstance(shown, table):
        cells = frame(shown).to_numpy().ravel()
        return 0 < len(cells) <= 2 and any(same(truth, cell) for cell in cells)
    try:
        return near(np.array([float(truth)]), np.array([float(shown)]))
    except (TypeError, ValueError):
        return str(truth) == str(shown)


def told(truth: Any, summary: str) -> bool:
    """Does a sentence with at most three numbers say a single value?"""
    if isinstance(truth, (pd.DataFrame, pd.Series)):
        return False
    if isinstance(truth, (str, pd.Timestamp)) or hasattr(truth, "isoformat"):
        return str(truth).removesuffix(" 00:00:00") in summary
    numbers = [n.replace(",", "") for n in NUMBER.findall(summary)]
    return len(numbers) <= 3 and any(same(truth, n) for n in numbers)


def drawn(entry: dict[str, Any], chart: Any, accepted: list[Any]) -> bool:
    """Is it the kind of chart asked for, over the columns and values asked for?"""
    fields = [field.replace("\\", "") for field, _ in encodings(chart).values()]
    wanted = [entry["x"]] + ([entry["y"]] if "y" in entry else [])
    if mark(chart) != entry["chart"] or any(w not in f for w in wanted[:1] for f in [fields]):
        return False
    if any(not any(w in field for field in fields) for w in wanted[1:]):
        return False
    return not accepted or any(same(t, chart.data) for t in accepted)


def classify(entry: dict[str, Any], turn: Turn, bound: list[Any], accepted: list[Any]) -> str:
    """right, asked, no, or WRONG."""
    if turn.ending == "ask_user":
        return "right" if entry.get("question") else "asked"
    if turn.ending != "return_done":
        return "right" if entry.get("no", "\0") in str(turn.arguments).lower() else "no"
    if entry.get("question") or "no" in entry:
        return "WRONG"
    charts = [p["value"] for p in turn.published if p["kind"] == "chart"]
    charts += [each for each in bound if hasattr(each, "to_dict") and hasattr(each, "mark")]
    if "chart" in entry:
        return "right" if any(drawn(entry, c, accepted) for c in charts) else "WRONG"
    shown = [p["value"] for p in turn.published if p["kind"] == "dataset"] or bound
    right = any(same(t, s) for t in accepted for s in shown)
    return "right" if right or any(told(t, turn.summary) for t in accepted) else "WRONG"


async def play(entry: dict[str, Any]) -> tuple[str, str, bool]:
    """One request in a fresh notebook: the outcome, what was shown, and whether it loaded."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "files" / entry["file"], folder)
        book = Notebook(Path(folder))
        turn = await book.ask(f"load {entry['file']}")
        scope: dict[str, Any] = {"pd": pd, "path": HERE / "files" / entry["file"]}
        exec(entry["load"], scope)
        frames = [v for v in book.executor.variables().values() if isinstance(v, pd.DataFrame)]
        loaded = turn.ending == "return_done" and any(f.shape == scope["df"].shape for f in frames)
        if not loaded:
            book = Notebook(Path(folder))
            await book.run(f"import pandas as pd\npath = {entry['file']!r}\n{entry['load']}")
        before = {name: id(v) for name, v in book.executor.variables().items()}
        try:
            turn = await book.ask(entry["ask"])
        except AssertionError as error:
            return "no", f"broke: {error}", loaded
        now = book.executor.variables()
        bound = [v for name, v in now.items() if before.get(name) != id(v)]
        seen = f"{turn.ending} {turn.arguments} {[type(b).__name__ for b in bound]}"
        return classify(entry, turn, bound, truths(entry)), seen, loaded


async def judge(only: str, show: bool) -> None:
    """Play the requests and print the shares and what was wrong."""
    counts: Counter[str] = Counter()
    unloaded: set[str] = set()
    wrong = []
    for entry in entries():
        if not entry["id"].startswith(only):
            continue
        outcome, seen, loaded = await play(entry)
        counts[outcome] += 1
        if not loaded:
            unloaded.add(entry["file"])
        line = f"{outcome:6} {entry['id']}  {entry['ask']}\n       {seen[:300]}"
        wrong += [line] if outcome == "WRONG" else []
        if show:
            print(line)
    print("\n".join(wrong))
    total = sum(counts.values())
    for outcome, count in counts.most_common():
        print(f"{outcome:6} {count:4} {count / max(total, 1):6.1%}")
    print(f"files not loaded as they are: {', '.join(sorted(unloaded)) or 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="id, or how it begins")
    parser.add_argument("--show", action="store_true", help="every outcome")
    options = parser.parse_args()
    asyncio.run(judge(options.only, options.show))
