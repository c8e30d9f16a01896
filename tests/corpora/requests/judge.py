"""Judge the built-in model by the corpus: python -m tests.corpora.requests.judge [FILE ...].

Each request is put in a fresh notebook beside its file. What is computed must be the truth that
plain pandas gives; a question must be one that the request leaves open, and lead to the truth.
"""

import argparse
import ast
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
OUTCOMES = ("right", "asked well", "refused well", "asked sillily", "refused", "WRONG")


def entries() -> list[dict[str, Any]]:
    """All requests, each with its file and the code that loads it rightly."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        corpus = tomllib.loads(path.read_text(encoding="utf-8"))
        of = {"data": corpus["file"], "load": corpus["load"], "sheet": corpus.get("sheet")}
        found += [
            {**of, **request, "id": f"{path.stem}-{at:02}"}
            for at, request in enumerate(corpus["requests"], 1)
        ]
    return found


def scope_of(entry: dict[str, Any]) -> dict[str, Any]:
    """What the truths of an entry are evaluated in."""
    scope: dict[str, Any] = {"pd": pd, "path": HERE / "files" / entry["data"]}
    exec(entry["load"], scope)
    return scope


def truths(entry: dict[str, Any]) -> list[Any]:
    """Every accepted answer."""
    scope = scope_of(entry)
    return [eval(code, scope) for code in entry.get("is", [])]


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
    # A date that was left as the text of its file is the same row.
    dates = [
        name
        for name in left.select_dtypes("datetime").columns
        if name in right and pd.api.types.is_string_dtype(right[name])
    ]
    if wide and dates:
        left, right = left.drop(columns=dates), right.drop(columns=dates)
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
    if (
        isinstance(truth, pd.Series)
        and isinstance(shown, pd.DataFrame)
        and len(shown) == 1 < len(truth)
    ):
        # Several figures of one table may be its only row.
        row = shown.iloc[0]
        is_row = len(row) == len(truth) and pd.api.types.is_numeric_dtype(truth)
        return is_row and near(np.asarray(truth, float), pd.to_numeric(row, "coerce").to_numpy())
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
    kind = {"point": "circle"}.get(mark(chart), mark(chart))
    wanted = [entry[axis] for axis in ("x", "y") if axis in entry]
    if kind != {"point": "circle"}.get(entry["chart"], entry["chart"]):
        return False
    if any(not any(name in field for field in fields) for name in wanted):
        return False
    return not accepted or any(same(t, chart.data) for t in accepted)


class Play:
    """One request in its own folder: what it led to."""

    def __init__(self, entry: dict[str, Any], folder: Path) -> None:
        self.entry, self.folder = entry, folder
        self.accepted = truths(entry)
        self.loaded = False

    async def _notebook(self) -> Notebook:
        """A notebook that has loaded the file; by other means where the model did not."""
        for each in self.folder.iterdir():
            each.unlink()
        shutil.copy(HERE / "files" / self.entry["data"], self.folder)
        book = Notebook(self.folder)
        turn = await book.ask(f"load {self.entry['data']}")
        if turn.ending == "ask_user" and self.entry["sheet"]:
            turn = await book.reply(self.entry["sheet"])
        right = scope_of(self.entry)["df"].select_dtypes("number")
        frames = [v for v in book.executor.variables().values() if isinstance(v, pd.DataFrame)]
        self.loaded = turn.ending == "return_done" and any(
            set(right.columns) <= set(f.columns) and f[right.columns].equals(right) for f in frames
        )
        if not self.loaded:
            book = Notebook(self.folder)
            name = self.entry["sheet"] or Path(self.entry["data"]).stem
            load = f"import pandas as pd\npath = {self.entry['data']!r}\n{self.entry['load']}"
            await book.run(f"{load}\n{name} = df\ndel df")
        if "after" in self.entry:
            await book.ask(self.entry["after"])
        return book

    async def _turn(self, replies: tuple[str, ...]) -> tuple[Turn, list[Any]]:
        book = await self._notebook()
        before = {name: id(v) for name, v in book.executor.variables().items()}
        turn = await book.ask(self.entry["ask"])
        for reply in replies:
            turn = await book.reply(reply)
        now = book.executor.variables()
        made = [v for name, v in now.items() if before.get(name) != id(v)]
        made += [await _shown(book, code) for code in turn.codes[-1:]]
        made += [_read(p) for p in self.folder.iterdir() if p.name != self.entry["data"]]
        return turn, made

    def _is_right(self, turn: Turn, made: list[Any]) -> bool:
        entry = self.entry
        if turn.ending != "return_done":
            return False
        charts = [p["value"] for p in turn.published if p["kind"] == "chart"]
        charts += [each for each in made if hasattr(each, "to_dict") and hasattr(each, "mark")]
        if "chart" in entry:
            return any(drawn(entry, c, self.accepted) for c in charts)
        if "file" in entry and not any(p.suffix[1:] == entry["file"] and p.name != entry["data"]
                                       for p in self.folder.iterdir()):  # fmt: skip
            return False
        shown = [p["value"] for p in turn.published if p["kind"] == "dataset"] or made
        is_right = any(same(t, s) for t in self.accepted for s in shown)
        return is_right or any(told(t, turn.summary) for t in self.accepted)

    async def outcome(self) -> tuple[str, str]:
        """One of ``OUTCOMES``, and what was shown."""
        must = self.entry.get("must", "")
        turn, made = await self._turn(())
        seen = f"{turn.ending} {turn.arguments} {[type(each).__name__ for each in made]}"
        if turn.ending == "ask_user":
            leads = not (self.accepted or "chart" in self.entry) or await self._leads(turn, ())
            good = leads and ("ask" in must or self.entry.get("may_ask"))
            return "asked well" if good else "asked sillily", seen
        if turn.ending != "return_done":
            return "refused well" if "refuse" in must else "refused", seen
        return "right" if self._is_right(turn, made) else "WRONG", seen

    async def _leads(self, turn: Turn, replies: tuple[str, ...]) -> bool:
        """Whether one of the choices comes to the truth, after three questions at most."""
        for choice in turn.choices:
            path = (*replies, choice)
            after, made = await self._turn(path)
            if self._is_right(after, made):
                return True
            asks = after.ending == "ask_user" and len(path) < 3
            if asks and await self._leads(after, path):
                return True
        return False


async def _shown(book: Notebook, code: str) -> Any:
    """The value of the last line of a cell, where it is an expression."""
    last = ast.parse(code).body[-1]
    if not isinstance(last, ast.Expr):
        return None
    await book.run(f"shown_ = {ast.unparse(last)}")
    return book["shown_"]


def _read(path: Path) -> pd.DataFrame:
    return pd.read_excel(path) if path.suffix == ".xlsx" else pd.read_csv(path)


async def judge(only: list[str], *, show: bool = False) -> dict[str, Counter[str]]:
    """The outcomes by corpus; what was wrong is printed."""
    counts: dict[str, Counter[str]] = {}
    for entry in entries():
        stem = entry["id"].rpartition("-")[0]
        if only and not {stem, entry["id"]} & set(only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            play = Play(entry, Path(folder))
            try:
                outcome, seen = await play.outcome()
            except AssertionError as error:
                outcome, seen = "WRONG", f"broke: {error}"
        counts.setdefault(stem, Counter())[outcome] += 1
        counts[stem]["not loaded"] += not play.loaded
        if show or outcome == "WRONG":
            print(f"{outcome:13} {entry['id']}  {entry['ask']}\n              {seen[:400]}")
    return counts


def as_table(counts: dict[str, Counter[str]]) -> str:
    """Shares by corpus, and of all."""
    total = sum(counts.values(), Counter[str]())
    lines = [f"{'':20}" + "".join(f"{each:>15}" for each in (*OUTCOMES, "not loaded"))]
    for name, row in [*counts.items(), ("all", total)]:
        size = max(sum(row[each] for each in OUTCOMES), 1)
        shares = "".join(f"{row[each]:>7} {row[each] / size:6.1%}" for each in OUTCOMES)
        lines.append(f"{name:20}{shares}{row['not loaded']:>15}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="names of corpora, or ids; all without")
    parser.add_argument("--show", action="store_true", help="every outcome")
    options = parser.parse_args()
    print(as_table(asyncio.run(judge(options.only, show=options.show))))
