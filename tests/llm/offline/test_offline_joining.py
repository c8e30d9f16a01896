"""Tables that are brought together: no row is lost or multiplied without a word."""

from pathlib import Path

import pandas as pd
import pytest
from offline_data import done
from offline_notebook import Notebook

from parsimony_kernel.offline.missing import STOP

ORDERS = pd.DataFrame(
    {
        "order_id": range(1, 7),
        "customer_id": [1, 1, 2, 3, 9, None],
        "amount": [10, 20, 30, 40, 50, 60.0],
    }
)
CUSTOMERS = pd.DataFrame(
    {"customer_id": [1, 2, 3, 4, None], "country": ["NO", "SE", "SE", "DK", "FI"]}
)


@pytest.fixture
async def notebook(tmp_path: Path) -> Notebook:
    ORDERS.to_csv(tmp_path / "orders.csv", index=False)
    CUSTOMERS.to_csv(tmp_path / "customers.csv", index=False)
    made = Notebook(tmp_path)
    await made.run(
        "import pandas as pd\n"
        "orders = pd.read_csv('orders.csv')\n"
        "customers = pd.read_csv('customers.csv')"
    )
    return made


def matched() -> pd.DataFrame:
    return ORDERS.merge(CUSTOMERS.dropna(), on="customer_id")


@pytest.mark.parametrize(
    "request_text",
    [
        "join orders and customers on customer_id",
        "join orders and customers",
        "merge orders with customers by customer id",
        "left join the orders with the customers table using customer_id",
        "combine orders & customers",
        "join orders and customers on customer_id = customer_id",
        "use orders and join it with customers",
        "join orders and customers as a left join",
    ],
)
async def test_every_row_of_the_first_table_stays_once(
    notebook: Notebook, request_text: str
) -> None:
    turn = await done(notebook, request_text)
    made = notebook["orders_with_customers"]
    assert list(made["order_id"]) == list(ORDERS["order_id"])
    assert made["country"].isna().sum() == 2
    assert "Rows of orders without a match: 2" in turn.summary
    assert "Rows of customers without a match: 2" in turn.summary


@pytest.mark.parametrize("how", ["inner", "left", "right"])
async def test_the_way_of_a_join_is_the_one_that_was_said(notebook: Notebook, how: str) -> None:
    await done(notebook, f"{how} join orders and customers on customer_id")
    made = notebook["orders_with_customers"]
    kept = {"inner": 0, "left": 2, "right": 2}[how]
    assert len(made) == len(matched()) + kept
    assert made["amount"].sum() == matched()["amount"].sum() + (110 if how == "left" else 0)


async def test_missing_keys_match_nothing(notebook: Notebook) -> None:
    await done(notebook, "inner join orders and customers on customer_id")
    assert notebook["orders_with_customers"]["customer_id"].notna().all()
    turn = await notebook.ask("outer join orders and customers on customer_id")
    assert turn.ending == "return_unable"
    assert "missing in rows of both" in turn.arguments["rationale"]


async def test_what_follows_is_computed_from_the_joined_table(notebook: Notebook) -> None:
    await done(
        notebook, "join orders and customers on customer_id and plot total amount by country"
    )
    expected = matched().groupby("country")["amount"].sum()
    table = notebook["total_amount_by_country"].set_index("country")["total_amount"]
    assert table.to_dict() == expected.to_dict()
    assert "total_amount_by_country_chart" in notebook.names


async def test_files_are_loaded_and_joined(tmp_path: Path) -> None:
    ORDERS.to_csv(tmp_path / "orders.csv", index=False)
    CUSTOMERS.to_csv(tmp_path / "customers.csv", index=False)
    notebook = Notebook(tmp_path)
    await done(notebook, "join orders.csv with customers.csv on customer_id")
    assert len(notebook["orders_with_customers"]) == len(ORDERS)


async def test_a_column_is_added_to_what_was_joined(notebook: Notebook) -> None:
    request = (
        "join orders and customers, then compute amount * 2 as gross and total gross by country"
    )
    await done(notebook, request)
    expected = matched().groupby("country")["amount"].sum() * 2
    table = notebook["total_gross_by_country"].set_index("country")["total_gross"]
    assert table.to_dict() == expected.to_dict()


@pytest.mark.parametrize(
    "request_text",
    ["total amount by country", "which country has the highest total amount?"],
)
async def test_columns_in_two_tables_are_an_offer_to_join(
    notebook: Notebook, request_text: str
) -> None:
    turn = await notebook.ask(request_text)
    assert turn.ending == "ask_user"
    assert turn.choices[-1] == STOP
    assert "customer_id" in turn.arguments["question"]
    turn = await notebook.reply("yes")
    assert turn.ending == "return_done"
    expected = matched().groupby("country")["amount"].sum()
    table = notebook["total_amount_by_country"].set_index("country")["total_amount"]
    assert table.to_dict() == expected.to_dict()


async def test_no_join_is_offered_where_one_table_has_it_all(notebook: Notebook) -> None:
    turn = await done(notebook, "mean amount by customer_id")
    assert "join" not in turn.summary.casefold()
    turn = await done(notebook, "number of customers per country")
    assert "orders_with_customers" not in notebook.names


async def test_keys_that_repeat_on_both_sides_are_asked_about(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\n"
        "sales = pd.DataFrame({'region': list('aabb'), 'amount': [1, 2, 3, 4.0]})\n"
        "goals = pd.DataFrame({'region': list('aab'), 'goal': [5, 6, 7.0]})"
    )
    turn = await notebook.ask("join sales and goals on region")
    assert "4 and 3 rows become 6 pairs" in turn.arguments["question"]
    await done(notebook, "join sales and goals on region", "Join every pair")
    assert len(notebook["sales_with_goals"]) == 6
    turn = await done(
        notebook, "join sales and goals on region", "Take the first row of goals for each region"
    )
    assert list(notebook["sales_with_goals_2"]["goal"]) == [5, 5, 7, 7]
    assert "only the first row" in turn.summary
    turn = await notebook.ask("join sales and goals on region")
    turn = await notebook.reply(STOP)
    assert turn.summary.startswith("Stopped")


async def test_several_columns_in_common_are_a_question(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\n"
        "sales = pd.DataFrame({'region': list('aabb'), 'year': [1, 2, 1, 2], 'amount': 1.5})\n"
        "goals = pd.DataFrame({'region': list('aabb'), 'year': [1, 2, 1, 2], 'goal': [2.5] * 4})"
    )
    turn = await notebook.ask("join sales and goals")
    assert turn.choices == ["region", "year", "all of them: region, year"]
    turn = await notebook.reply("all of them: region, year")
    assert turn.ending == "return_done", turn
    assert len(notebook["sales_with_goals"]) == 4
    await done(notebook, "join sales and goals on region and year")
    assert list(notebook["sales_with_goals"].columns) == ["region", "year", "amount", "goal"]


@pytest.mark.parametrize(
    "request_text",
    [
        "join orders with products",
        "join orders and customers on amount",
        "join orders and customers on customer_id = country",
        "join orders, customers and cars",
        "join orders and orders",
        "concatenate orders and customers",
    ],
)
async def test_tables_that_do_not_belong_together_are_not_joined(
    notebook: Notebook, request_text: str
) -> None:
    before = notebook.names
    turn = await notebook.ask(request_text)
    assert turn.ending == "return_unable", turn
    assert notebook.names == before


async def test_keys_with_nothing_in_common_are_not_joined(notebook: Notebook) -> None:
    await notebook.run("others = pd.DataFrame({'customer_id': [70.0, 80.0], 'city': ['a', 'b']})")
    turn = await notebook.ask("join orders and others on customer_id")
    assert turn.ending == "return_unable"
    assert "No row of `orders` matches" in turn.arguments["rationale"]
    assert "orders_with_others" not in notebook.names


async def test_columns_of_the_same_name_keep_the_name_of_the_first_table(
    notebook: Notebook,
) -> None:
    await notebook.run("customers['amount'] = 1")
    turn = await done(notebook, "join orders and customers on customer_id")
    made = notebook["orders_with_customers"]
    assert list(made["amount"]) == list(ORDERS["amount"])
    assert "amount_customers" in made.columns
    assert "amount_customers" in turn.summary
