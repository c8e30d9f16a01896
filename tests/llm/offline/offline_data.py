"""Data that the offline model is tried on, and what pandas says of it."""

import random
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from offline_notebook import Notebook, Turn

from parsimony_kernel.offline.words import table

_PACKAGE = find_spec("vega_datasets")
assert _PACKAGE is not None
assert _PACKAGE.origin is not None
DATA = Path(_PACKAGE.origin).parent / "_data"
FILES = Path(__file__).parents[2] / "corpora/requests/files"
ROWS = [row for kind in ("aside", "row") for row in table()[kind].values() if "example" in row]

WEATHER = """date,temp_max,temp_min,wind,city,sky
2012-01-01,12.8,5.0,4.7,Oslo,rain
2012-01-02,10.6,2.8,4.5,Oslo,sun
2012-02-01,11.7,7.2,2.3,Bergen,sun
2013-02-02,12.2,5.6,4.7,Bergen,fog
"""


def copy(folder: Path, *names: str) -> None:
    """Copies of public datasets in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(DATA / name, folder / name)


def write_sales(path: Path) -> None:
    """A made-up table of sales, the same each time."""
    draw = random.Random(7)
    rows = ["Order Date,Region,Product,Units,Unit Price,Revenue"]
    for _ in range(300):
        units, price = draw.randint(1, 20), draw.choice([9.5, 20, 45.25])
        date = f"2023-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        region = draw.choice(["North", "South", "East", "West"])
        product = draw.choice(["Desk", "Chair", "Lamp"])
        rows.append(f"{date},{region},{product},{units},{price},{units * price}")
    path.write_text("\n".join(rows), encoding="utf-8")


def cars() -> pd.DataFrame:
    read = pd.read_json(DATA / "cars.json")
    return read.assign(Year=pd.to_datetime(read["Year"]))


def weather() -> pd.DataFrame:
    return pd.read_csv(DATA / "seattle-weather.csv", parse_dates=["date"])


def stocks() -> pd.DataFrame:
    return pd.read_csv(DATA / "stocks.csv", parse_dates=["date"], date_format="%b %d %Y")


async def done(notebook: Notebook, request: str, *replies: str) -> Turn:
    """Play to the end; every code that was sent must have worked."""
    turn = await notebook.ask(request)
    for reply in replies:
        assert turn.ending == "ask_user", turn
        turn = await notebook.reply(reply)
    assert turn.errors == []
    assert turn.ending == "return_done", turn
    return turn


TABLES = """
import pandas as pd
cars = pd.read_json("data/cars.json")
cars["Year"] = pd.to_datetime(cars["Year"])
weather = pd.read_csv("data/seattle-weather.csv")
stocks = pd.read_csv("data/stocks.csv")
"""

PEOPLE = """
import pandas as pd
people = pd.DataFrame({
    "department": ["IT", "HR", "IT", "Ops"] * 5,
    "active": [True, False, False, True, True] * 4,
    "hired": pd.date_range("2019-03-01", periods=20, freq="61D"),
    "salary": range(1_000, 3_000, 100),
    "born_year": [1990, 1985, 1999, 1970] * 5,
    "bonus": [None, 5.0, 7.0, None] * 5,
    "rank": ["second", "first", "third", "second"] * 5,
    "clerk": ["May", "Will", "June", "Rose"] * 5,
})
"""

STOCK = """
import pandas as pd
stock = pd.DataFrame({
    "type": ["return", "out", "in", "return", "both", "in"],
    "size": ["M", "m", "L", "M", "L", "m"],
    "last": [3, 1, 2, 6, 5, 4],
    "total": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
    "paid": [None, 2.0, None, 4.0, 5.0, 6.0],
    "shelf": ["A", "B", "A", "B", "C", "C"],
    "kind": ["Entry", "Tour", "Entry", "Cafe", "Cafe", "Tour"],
    "insured": [True, False, None, True, False, None],
    "open": ["yes", "no", "yes", "no", "yes", "no"],
    "guest_id": [201, 201, 202, 203, 203, 204],
    "year": [2021, 2022, 2021, 2022, 2021, 2022],
    "booked": pd.to_datetime(
        ["2022-01-01", "2022-05-01", "2021-01-01", "2021-02-01", "2023-01-01", "2023-01-01"]
    ),
})
"""

HIVES = """
import pandas as pd
hives = pd.DataFrame({
    "hive": [f"H{n}" for n in (1, 2, 3, 4, 5)] * 2,
    "strain": ["Carnica", "Buckfast"] * 5,
    "honey_kg": [10.0 * n for n in range(1, 11)],
    "reason": ["swarm", None, None, "swarm", "mites"] * 2,
    "fed": ["yes", "no"] * 5,
    "fee": [0, 1] * 5,
    "pest": ["none", "moth"] * 5,
})
"""


async def to_the_end(notebook: Notebook, request: str) -> Turn:
    """Play, and take the first choice of every question."""
    turn = await notebook.ask(request)
    while turn.ending == "ask_user":
        turn = await notebook.reply(turn.choices[0])
    return turn


async def made(notebook: Notebook, request: str) -> Any:
    """The table that a request makes."""
    return notebook[(await done(notebook, request)).summary.split("Saved as `")[1].split("`")[0]]


def number(turn: Turn) -> float:
    """The one number that a summary says."""
    return float(turn.summary.split(": ")[1].split(" ")[0].rstrip(".").replace(",", ""))


async def drawn(notebook: Notebook, request: str) -> Any:
    """The chart that a request draws."""
    names = (await done(notebook, request)).summary.split("`")
    return notebook[next(each for each in names if each.endswith("_chart"))]
