"""Data that the offline model is tried on, and what pandas says of it."""

import random
import shutil
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
from offline_notebook import Notebook, Turn

_PACKAGE = find_spec("vega_datasets")
assert _PACKAGE is not None
assert _PACKAGE.origin is not None
DATA = Path(_PACKAGE.origin).parent / "_data"

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
