"""The built-in model: files, and what goes on from one request to the next."""

import pytest
from offline_data import HIVES, ROWS, TABLES, done, to_the_end
from offline_notebook import Notebook

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.execution.factory import summarise
from parsimony_kernel.offline.words import table


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        # The first rows of what was sorted in another request, or of the table.
        (["sort people by salary descending", "show the first 3 rows"], "say it in full"),
        (["sort people by salary descending", "show the first 3 rows of people"], "of people."),
        (["sort people by salary and show the first 3 rows"], "first 3 rows of rows_sorted"),
        (["plot mean salary by rank", "predict it", "publish it"], "made no table"),
        (["plot mean salary by rank", "how many people", "publish it"], "made no table"),
        (["plot mean salary by rank", "publish it"], "Published the chart"),
        (["lod staff.csv"], "load staff.csv"),
        (["keep active people", "then predict salary"], "`mean salary by"),
        (["median salary by rank, then predict it"], "Saved as `median_salary_by_rank`"),
        (["bonus by clerk predicted"], "`mean bonus by clerk`"),
    ],
)
async def test_what_goes_on_from_another_request(
    staff: Notebook, requests: list[str], said: str
) -> None:
    for request in requests:
        turn = await staff.ask(request)
    assert said in f"{turn.arguments}"


async def test_table_is_at_hand_after_many_requests(staff: Notebook) -> None:
    for size in range(1, 26):
        await done(staff, f"top {size} people by salary")
        staff.earlier = staff.earlier[-20:]
    assert "Mean salary: 1,950" in (await done(staff, "mean salary")).summary


async def test_table_with_the_column_is_meant(staff: Notebook) -> None:
    await staff.run("pay = people.rename(columns={'salary': 'base salary'})")
    assert "Used `people`." in (await done(staff, "mean salary by rank")).summary


async def test_named_table_is_exported_and_published(staff: Notebook) -> None:
    await done(staff, "mean salary by department")
    turn = await done(staff, "publish people as a dataset")
    assert [p["title"] for p in turn.published] == ["People"]
    assert "Wrote `people`" in (await done(staff, "export people to csv")).summary


async def test_each_named_file_is_loaded(notebook: Notebook) -> None:
    turn = await done(notebook, "load data/cars.json and data/stocks.csv")
    for name in ("cars", "stocks"):
        assert f"Loaded `{name}`" in turn.summary


@pytest.mark.parametrize("deed", ["delete", "Lösche die Datei"])
async def test_no_file_is_loaded_for_a_deed_that_is_refused(notebook: Notebook, deed: str) -> None:
    turn = await to_the_end(notebook, f"load data/cars.json and {deed} data/stocks.csv")
    assert "never deletes or changes files" in turn.arguments["rationale"]
    assert deed.split()[0] in turn.arguments["rationale"]
    assert turn.codes == []


async def test_file_with_spaces_in_its_name_is_loaded(notebook: Notebook) -> None:
    (notebook.folder / "my sales 2024.csv").write_text("city,amount\nOslo,5\nBergen,7\n", "utf-8")
    turn = await done(notebook, "load my sales 2024.csv and total amount by city")
    assert "from my sales 2024.csv: 2 rows" in turn.summary
    assert "Bergen, 7" in turn.summary


async def test_suggestions_come_from_existing_data(notebook: Notebook) -> None:
    said = (await done(notebook, "what can you do?")).summary
    assert said.startswith("You can ask here, for example: `load data/cars.json` and `load")
    understood = {row["example"].rstrip("?") for row in ROWS}
    assert understood.issuperset(table()["no"]["examples"].split("`")[1::2])
    await notebook.run(TABLES)
    said = (await done(notebook, "what can you do?")).summary
    assert said.startswith("You can ask here, for example: `mean Miles_per_Gallon by")


@pytest.mark.parametrize(
    ("text", "options", "types"),
    [
        ("a;b\n1,5;x\n2.000,25;y\n", "sep=';', decimal=',', thousands='.'.", "float64"),
        ("a|b\n1.5|x\n", "sep='|'.", "float64"),
        ('a,b\n"1,500",x\n"2,000",y\n', "thousands=','.", "int64"),
        ("a,b\n1.5,x\n", "", "float64"),
        ("Report of 2024\n\na;b\n1;2\n3;4\n", "sep=';', skiprows=2.", "int64"),
        ("a\nred;blue\ngreen\na;b;c\n", "", "str"),
        ("a\n2024-01-05 10:30\n2024-01-06 10:30\n", "", "str"),
        ("a\nMain St 12\nHigh St 3\n", "", "str"),
    ],
)
async def test_file_dialect_is_detected_and_told(
    small: Notebook, text: str, options: str, types: str
) -> None:
    (small.folder / "data.csv").write_text(text)
    turn = await done(small, "load data.csv")
    assert str(small["data"]["a"].dtype) == types
    assert ("Read data.csv with" in turn.summary) == bool(options)
    assert options in turn.summary


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("a;b\n27,24 €;x\n1.000,10 €;y\n", 1027.34),
        ("a;b\n-3,3 %;x\n4,4 %;y\n", 1.1),
        ('a,b\n"$1,200.50",x\n$3.00,y\n', 1203.5),
    ],
)
async def test_numbers_with_a_sign_keep_their_decimals(
    small: Notebook, text: str, total: float
) -> None:
    (small.folder / "data.csv").write_text(text)
    await done(small, "load data.csv")
    assert small["data"]["a"].sum() == pytest.approx(total)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("city temp wind\nOslo 3 7\nRome 14 2\n", "its header is 'city temp wind'"),
        ("note\na|b\nc|d\n", "its header is 'note'"),
        ("k;v\na;1.234\nb;2.250\n", "data.csv can be read in 2 ways"),
    ],
)
async def test_header_that_holds_the_separator_is_never_loaded(
    small: Notebook, text: str, said: str
) -> None:
    (small.folder / "data.csv").write_text(text)
    turn = await small.ask("load data.csv")
    assert said in str(turn.arguments)
    assert "data" not in small.executor.variables()


@pytest.mark.parametrize("name", ["print", "sum", "pd", "json"])
async def test_no_builtin_or_module_is_bound(small: Notebook, name: str) -> None:
    (small.folder / "data.csv").write_text("a,b\n1,2\n")
    turn = await small.ask(f"load data.csv as {name}")
    assert f'can\'t use "{name}"' in turn.arguments["rationale"]
    assert name not in small.executor.variables()


async def test_ambiguous_date_is_asked_about(small: Notebook) -> None:
    (small.folder / "sales.csv").write_text("day,amount\n03/04/2024,1\n05/06/2024,2\n")
    turn = await small.ask("total amount by month in sales.csv")
    assert turn.choices == ["03/04/2024 begins with the day", "03/04/2024 begins with the month"]
    turn = await small.reply(turn.choices[0])
    made = small[turn.summary.split("Saved as `")[1].split("`")[0]]
    assert [f"{each:%B}" for each in made["day"][made["total_amount"] > 0]] == ["April", "June"]


async def test_a_reply_is_a_choice_or_ends_the_question(small: Notebook) -> None:
    (small.folder / "sales.csv").write_text("day,amount\n03/04/2024,1\n05/06/2024,2\n")
    await small.ask("total amount by month in sales.csv")
    turn = await small.reply("perhaps")
    assert turn.arguments["question"].startswith("'perhaps' is none of the choices.")
    turn = await small.reply("stop")
    assert turn.arguments["rationale"] == "Stopped, as you said."


async def test_equal_tables_are_asked_about(notebook: Notebook) -> None:
    await notebook.run("import pandas as pd")
    await notebook.run("few = pd.DataFrame({'units': [1], 'region': ['N']})\nshop = few * 2")
    assert (await notebook.ask("total units by region")).choices == ["few", "shop"]


async def test_two_requests_in_one(notebook: Notebook) -> None:
    turn = await done(notebook, "load data/cars.json as autos and plot mean horsepower by origin")
    assert "Loaded `autos` from data/cars.json: 406 rows, 9 columns, 8 missing in" in turn.summary
    assert len(turn.codes) == 2


@pytest.mark.parametrize(
    "end", ["publish it as wind", "publish as the Wind", "publish it as 'wind'"]
)
async def test_unquoted_title_is_no_column(notebook: Notebook, end: str) -> None:
    request = "load data/seattle-weather.csv as sky, mean wind by weather, and"
    turn = await done(notebook, f"{request} {end}")
    assert [(p["title"].lower(), len(p["value"])) for p in turn.published] == [("wind", 5)]


@pytest.mark.parametrize(
    ("request_", "end"),
    [
        ("what is in data/power.csv?", "Summary of power."),
        ("mean output by year in data/power.csv", "Highest mean output: 2011, 9."),
        ("load data/power.csv and plot output", "`mean output by source`"),
        # It is not loaded before all of the rest is strange.
        ("load data/power.csv and predict it", 'know "predict": say'),
        ("load data/plain.csv and plot it", "needs a group"),
    ],
)
async def test_named_file_is_the_subject(notebook: Notebook, request_: str, end: str) -> None:
    """Beside other tables in memory; its years are told as years."""
    rows = "2010-01-01,wind,4\n2011-01-01,wind,9\n"
    (notebook.folder / "data/power.csv").write_text(f"year,source,output\n{rows}")
    (notebook.folder / "data/plain.csv").write_text("day,a,b\n2010-01-01,1,4\n2010-01-02,2,9\n")
    await notebook.run(TABLES)
    await done(notebook, "mean horsepower by origin")
    assert end in f"{(await notebook.ask(request_)).arguments}"


async def test_settled_table_is_meant(notebook: Notebook) -> None:
    """The months' means have a column whose name holds the words as well."""
    await notebook.run(
        "import pandas as pd\n"
        "everything = pd.read_csv('data/seattle-weather.csv', parse_dates=['date'])\n"
        "weather = everything.assign(month=everything.date.dt.month)\n"
        "warm = weather.groupby('month')[['temp_max']].mean().add_prefix('mean_').reset_index()"
    )
    turn = await done(notebook, "plot mean temp_max by month")
    assert "weather\n" in turn.codes[-1]
    assert "Used `weather`." in turn.summary


async def test_table_that_was_lost_with_its_kernel_is_loaded_again(notebook: Notebook) -> None:
    """Where the request does not load it, its name is not known."""
    then = "plot the weekly mean temperature"
    for request, end in ((f"load data/seattle-weather.csv and {then}", "return_done"),
                         (f"use seattle_weather and {then}", "return_unable")):  # fmt: skip
        notebook.answers.clear()
        notebook.earlier.clear()
        await notebook.ask(request)
        turn = await notebook.reply("temp_max", gone=["seattle_weather"])
        assert turn.ending == end
    assert "No table is at hand for 'use seattle_weather" in turn.arguments["rationale"]


async def test_table_that_was_changed_while_a_question_waited_is_named(notebook: Notebook) -> None:
    await notebook.ask("load data/seattle-weather.csv and plot the weekly mean temperature")
    turn = await notebook.reply("temp_max", changed=["seattle_weather", "other"])
    assert "`seattle_weather` was changed while the question waited." in turn.summary
    assert "other" not in turn.summary


async def test_real_model_is_named_with_the_first_refusal_alone(tables: Notebook) -> None:
    said = [await tables.ask(f"mean customer {word}") for word in ("churn", "value")]
    assert ["%agent model" in f"{turn.arguments}" for turn in said] == [True, False]


async def test_results_whose_turns_are_forgotten_stand_for_no_table(
    tables: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tables.ask("cars after 1980")
    await tables.ask("total horsepower by origin")
    tables.earlier = []
    assert "Used `cars`." in (await done(tables, "mean horsepower")).summary
    made = {k: v for k, v in tables.executor.variables().items() if k.startswith("rows_of_")}
    assert made
    cut = notebook_context(files=[], variables=summarise(made)[0], more_variables=1)
    monkeypatch.setattr(tables, "context", lambda: cut)
    turn = await tables.ask("mean horsepower")
    assert turn.ending == "return_unable"


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (["mean honey_kg by strain, then plot it"], "mean_honey_by_strain_2_chart"),
        (["mean honey_kg by strain, then plot it as a line"], "mean_honey_by_strain_2_chart"),
        (["mean honey_kg by strain as a bar chart, then plot it as a line"], "ask in parts"),
        (["mean honey_kg, then plot it"], "needs a group"),
        *((["mean honey_kg by strain", then], "takes each request by itself")
          for then in ("now by fed", "and by fed", "the same, but the median", "median instead",
                       "what about mites", "how about mites", "only Carnica", "for Carnica",
                       "without mites", "how many", "plot it", "as a bar chart")),
    ],
)  # fmt: skip
async def test_only_a_chart_goes_on_in_one_request(
    notebook: Notebook, requests: list[str], said: str
) -> None:
    await notebook.run(HIVES)
    for request in requests:
        turn = await notebook.ask(request)
    assert said in f"{turn.arguments}"
