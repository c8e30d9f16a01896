"""What is published is refreshed by its title; what stands against it is told in its words."""

from pathlib import Path

import pytest
from offline_data import WEATHER, done
from offline_publishing import PublishingNotebook

DAYS = "plot mean wind by city from weather.csv and publish it as a report titled 'Windy days'"
MORE = "2013-02-03,9.0,1.0,44.7,Oslo,rain\n"


@pytest.fixture
def desk(tmp_path: Path) -> PublishingNotebook:
    (tmp_path / "weather.csv").write_text(WEATHER, encoding="utf-8")
    return PublishingNotebook(tmp_path)


@pytest.mark.parametrize(
    "request_text",
    [
        "refresh the report 'Windy days'",
        "refresh 'Windy days'",
        "refresh windy days",
        "please refresh the Windy days report",
        "refresh the report called Windy days",
        "refresh the report",
    ],
)
async def test_what_is_as_it_was_comes_out_as_it_was(
    desk: PublishingNotebook, request_text: str
) -> None:
    await done(desk, DAYS)
    published = len(desk.events)
    turn = await done(desk, request_text)
    assert desk.called("refresh") == [
        {"artifact": "Windy days", "accept_changed_sources": False},
    ]
    assert len(desk.events) == published
    assert turn.summary == (
        "Refreshed the report 'Windy days': it comes out as it was (reports/windy_days.html)."
    )


async def test_new_data_is_refused_until_it_is_asked_for(desk: PublishingNotebook) -> None:
    await done(desk, DAYS)
    (desk.folder / "weather.csv").write_text(WEATHER + MORE, encoding="utf-8")
    turn = await desk.ask("refresh the report 'Windy days'")
    assert turn.ending == "return_unable"
    assert "'weather.csv': changed since" in turn.arguments["blockers"][0]
    offered = turn.arguments["suggested_next_steps"][0].partition(": ")[2].rstrip(".")
    assert offered == "refresh 'Windy days' with the new data"

    charts = len(desk.announced("chart"))
    turn = await done(desk, offered)
    assert desk.called("refresh")[-1]["accept_changed_sources"] is True
    assert len(desk.announced("chart")) == charts + 1
    assert "'Windy days': its content is another now" in turn.summary
    assert "What had changed: weather.csv." in turn.summary
    assert "'Mean wind by city' changed" in turn.summary
    assert turn.summary.endswith("Its sentences stay as they were written.")


async def test_a_name_that_reports_and_charts_share_is_told_apart(
    desk: PublishingNotebook,
) -> None:
    await done(desk, "plot mean wind by city from weather.csv and publish it as 'Wind'")
    await done(desk, "make a report of the charts called 'Wind'")
    turn = await done(desk, "refresh the chart 'Wind'")
    assert "Refreshed the chart 'Wind'" in turn.summary
    turn = await done(desk, "refresh 'Wind'", "the report 'Wind'")
    assert "Refreshed the report 'Wind'" in turn.summary


async def test_what_is_not_published_is_handed_off_with_the_words(
    desk: PublishingNotebook,
) -> None:
    turn = await desk.ask("refresh the report")
    assert turn.arguments["blockers"] == ["no report is published in this workspace"]
    turn = await desk.ask("refresh 'Windy nights'")
    assert turn.ending == "return_unable"
    assert "There is no artifact 'Windy nights'" in turn.arguments["blockers"][0]
    assert len(desk.called("refresh")) == 1


async def test_what_was_just_published_is_refreshed_after_it(desk: PublishingNotebook) -> None:
    await done(desk, f"{DAYS}, then refresh 'Windy days'")
    tools = [name for name, _ in desk.calls if name != "run_code"]
    assert tools == ["return_chart", "return_report", "refresh", "return_done"]


async def test_a_column_of_that_name_is_a_column(desk: PublishingNotebook) -> None:
    text = "brand,refresh rate\na,60\na,120\nb,75\n"
    (desk.folder / "monitors.csv").write_text(text, encoding="utf-8")
    await done(desk, "mean refresh rate by brand from monitors.csv")
    assert desk["mean_refresh_rate_by_brand"]["mean_refresh_rate"].tolist() == [90.0, 75.0]
    assert desk.called("refresh") == []
