"""Two notebooks: one beside public datasets, one beside a table of four rows."""

from pathlib import Path

import pytest
from offline_data import PEOPLE, TABLES, WEATHER, copy, write_sales
from offline_notebook import Notebook


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    copy(tmp_path / "data", "cars.json", "seattle-weather.csv", "stocks.csv")
    write_sales(tmp_path / "data/sales.csv")
    return Notebook(tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Notebook:
    (tmp_path / "weather.csv").write_text(WEATHER, encoding="utf-8")
    return Notebook(tmp_path)


@pytest.fixture
async def tables(notebook: Notebook) -> Notebook:
    await notebook.run(TABLES)
    return notebook


@pytest.fixture
async def staff(notebook: Notebook) -> Notebook:
    await notebook.run(PEOPLE)
    return notebook
