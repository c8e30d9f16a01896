"""What is asked to be published is published, and nothing else."""

import pytest
from offline_data import done
from offline_notebook import Notebook


async def test_only_what_is_asked_for_is_published(notebook: Notebook) -> None:
    turn = await done(notebook, "plot mean horsepower by origin from cars.json")
    assert turn.published == []
    turn = await done(
        notebook, "plot mean mpg by origin from cars.json and publish the chart as 'Thirst'"
    )
    assert [(p["kind"], p["variable"], p["title"]) for p in turn.published] == [
        ("chart", "mean_miles_per_gallon_by_origin_chart", "Thirst")
    ]


@pytest.mark.parametrize(
    ("request_text", "kinds"),
    [
        ("plot mean mpg by origin from cars.json and publish it", ["chart"]),
        ("mean mpg by origin from cars.json, save the result as a dataset", ["dataset"]),
        ("save the mean mpg by origin from cars.json as a dataset called Power", ["dataset"]),
        ("plot mean mpg by origin of cars.json, publish the data and the chart",
         ["dataset", "chart"]),
        ("load cars.json and publish it as a dataset", ["dataset"]),
    ],
)  # fmt: skip
async def test_datasets_and_charts_are_published(
    notebook: Notebook, request_text: str, kinds: list[str]
) -> None:
    turn = await done(notebook, request_text)
    assert [p["kind"] for p in turn.published] == kinds


async def test_what_an_earlier_turn_made_can_be_published(notebook: Notebook) -> None:
    await done(notebook, "plot mean horsepower by origin from cars.json")
    turn = await done(notebook, "publish the chart")
    assert [p["variable"] for p in turn.published] == ["mean_horsepower_by_origin_chart"]
