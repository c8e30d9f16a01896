"""Under ``schema`` no row's label and no record without a header reaches a model as a name.

Each row is a request through the real client to a server on this machine, whose body is searched.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.llm import chokepoint
from parsimony_kernel.llm.litellm_model import LiteLLMModel
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.provider import LoopbackProvider
from parsimony_kernel.testing.scripted import call
from tests.scenarios.loops import gather

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.filterwarnings("ignore:.*the `ReadOnly` qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the .* attribute:DeprecationWarning"),
]

SEED = secrets.randbelow(100_000)
WORD, NUMBER = f"qvxzk{SEED}", str(7_300_000_000 + SEED)

MINE = f"""
import pandas as pd
import numpy as np
label, number = {WORD!r}, {NUMBER}
people = pd.DataFrame({{
    "name": [label, "Grace", label + "b"], "town": [label, "Ely", label],
    "salary": [number, 2.0, number + 1], "bonus": [1.0, number, 3.0],
    "day": pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"]),
}})
by_name = people.set_index("name")
pay = by_name[["salary", "bonus"]]
by_salary = people.set_index("salary")
by_both = people.set_index(["town", "name"])
things = {{label: number, "other": 1}}
"""

# Of a table whose rows are labelled with values.
LABELLED = r"""
pay.iloc[0]
pay.iloc[-1]
pay.loc[label]
pay.loc[pay.index[0]]
row = pay.iloc[0]
row = pay.loc[label]\nrow
for _, row in pay.iterrows(): pass
row = next(pay.iterrows())[1]\nrow
list(pay.iterrows())[0][1]
[row for _, row in pay.iterrows()]
rows = dict(pay.iterrows())
next(pay.itertuples())
first = next(pay.itertuples())
pay["salary"].idxmax()
best = pay["salary"].idxmax()
pay.idxmax()
pay.idxmin()
pay.idxmax(axis=1)
pay.loc[pay["salary"].idxmax()]
top = pay.loc[pay["salary"].idxmax()]
pay.xs(label)
pay.head(1).squeeze("index")
pay.head(1).squeeze()
pay.take([0]).squeeze("index")
pay.sum(axis=1)
pay["salary"].nlargest(1)
pay["salary"].sort_values().index[0]
pay["salary"].sort_values().index
pay.index
pay.index.tolist()
pay.index.to_frame()
pay.index.to_series()
pay.apply(lambda each: each.name, axis=1)
pay.apply(lambda each: each, axis=1).iloc[0]
pay.mean(axis=1).rename("mean")
pay.stack()
pay.to_dict()
pay.to_dict("index")
pay.to_records()
pay["salary"].to_dict()
pay["salary"]
by_name["town"].map({label: 1})
by_salary.iloc[0]
by_salary.loc[number]
row = by_salary.iloc[0]
by_both.iloc[0]
by_both.loc[(label, label)]
by_both.xs(label, level="town").iloc[0]
pay.groupby(level=0).get_group(label).iloc[0]
pay.reset_index().iloc[0]
pay.iloc[0].rename("one")
pay.iloc[0].to_frame()
pay.T
pay.transpose()
pd.concat([pay.iloc[0], pay.iloc[1]], axis=1)
pd.DataFrame({label: [1, 2]}, index=["a", "b"])
pd.Series(things)
pd.Series(things, name=label)
pd.Series([1, 2], index=["a", "b"], name=label)
print(pay)
print(pay.iloc[0])
raise KeyError(pay.index[0])
pay.loc["nobody"]
pay[label]
people["name"].str.len()[label]
assert pay.empty, pay.index[0]
people.value_counts("name")
people["name"].value_counts()
people["name"].value_counts().index[0]
people.groupby("name")["salary"].sum()
people.groupby("name").agg(total=("salary", "sum")).iloc[0]
people.describe()
people.describe(include="all")
pay.describe().loc["max"]
people.mode().iloc[0]
people["name"].unique()
people["name"].astype("category")
people["name"].astype("category").cat.categories
people.agg(["min", "max"])
people.to_numpy()
people.nlargest(1, "salary")
things
{name: each for name, each in pay.iterrows()}
sorted(things)
dict(zip(pay.index, pay["salary"]))
"""

# Of files whose first record is no header.
FILES = {
    "words.csv": f"{WORD},{NUMBER},2024-01-02\nGrace,2,2024-01-03\n",
    "ages.csv": f"{WORD},36,1.5\nGrace,37,2.5\n",
    "codes.csv": f"{WORD},{NUMBER}\nGrace,7300000001\n",
    "hired.csv": f"{WORD},2019\nGrace,2020\n",
    "counts.csv": f"{WORD},1\nGrace,2\n",
    "mails.csv": f"{WORD},{WORD}@example.org\nGrace,grace@example.org\n",
    "days.csv": f"2024-01-02,{WORD}\n2024-01-03,Grace\n",
    "money.tsv": f"{WORD}\t$1,200.50\nGrace\t$7.00\n",
}
HEADERLESS = r"""
pd.read_csv("words.csv")
t = pd.read_csv("words.csv")
t = pd.read_csv("words.csv")\nt.dtypes
t = pd.read_csv("words.csv")\nt.iloc[0]
t = pd.read_csv("words.csv")\nt["name"]
t = pd.read_csv("words.csv")\nt.describe()
t = pd.read_csv("words.csv")\nt.columns
t = pd.read_csv("words.csv", header=None)\nt
pd.read_csv("ages.csv")
pd.read_csv("codes.csv")
pd.read_csv("hired.csv")
pd.read_csv("counts.csv")
pd.read_csv("mails.csv")
pd.read_csv("days.csv")
pd.read_csv("money.tsv", sep="\t")
pd.read_csv("words.csv", index_col=0)
pd.read_csv("words.csv").rename(columns=str.upper)
import polars as pl\npl.read_csv("words.csv")
import pyarrow.csv\npyarrow.csv.read_csv("words.csv")
import pathlib\npathlib.Path("words.csv").read_text()
"""

# What is told, as the page on what a model sees says: names that code made from values.
MADE_FROM_VALUES = [
    "wide = pay.T",
    'people.pivot_table("salary", "day", "name")',
    'pd.get_dummies(people["name"])',
    'pd.crosstab(people["day"], people["name"])',
]

CODES = [
    line.replace("\\n", "\n") for line in (*LABELLED.splitlines(), *HEADERLESS.splitlines()) if line
]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is on this machine."""
    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", True)


async def run_in(folder: Path, model: LiteLLMModel, share: Share) -> None:
    """Two turns of a notebook of its own, with the tables and the files."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    executor = CodeExecutor(cwd=str(folder))
    assert (await executor.execute(MINE)).error is None
    session = NotebookSession(
        executor=executor, notebook="n.ipynb", folder=folder, model=model, environ={}
    )
    options = TurnOptions(share=share, approve=Approval.auto)
    for cell in ("look", "again"):
        await gather(session.turn(cell, cell_key=cell, options=options))
    session.close()


async def told_by(codes: Sequence[str], share: Share, folder: Path) -> list[str]:
    """Those of ``codes`` after which a request held a canary."""
    done = call("return_done", summary="It is in the cell.")
    script = [step for code in codes for step in (call("run_code", code=code), done, done)]
    telling = []
    with LoopbackProvider(script) as server:
        model = LiteLLMModel({"model": "openai/gpt-5", "api_key": "k", "api_base": server.url})
        for number, code in enumerate(codes):
            place = folder / str(number)
            place.mkdir()
            await run_in(place, model, share)
            assert len(server.requests) == 3 * (number + 1), code
            sent = "".join(json.dumps(each.body) for each in server.requests[-3:])
            if WORD in sent.lower() or NUMBER in sent:
                telling.append(code)
        server.assert_exhausted()
    print({"probes": len(codes), "share": share.value, "seed": SEED, "told": len(telling)})
    return telling


@pytest.mark.parametrize("share", [Share.schema, Share.none])
async def test_row_labels_and_records_are_not_column_names(
    share: Share, live: None, tmp_path: Path
) -> None:
    assert len(CODES) >= 80
    assert await told_by(CODES, share, tmp_path) == []


async def test_columns_named_after_values_are_reported(live: None, tmp_path: Path) -> None:
    assert await told_by(MADE_FROM_VALUES, Share.schema, tmp_path) == MADE_FROM_VALUES
