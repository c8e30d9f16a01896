"""What the scripted provider answers in the notebooks that are recorded, request by request.

We wrote these answers, no model did. They travel over HTTP to the client that a real model has,
and the code in them runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from parsimony_kernel.core.chat import Completion, Usage
from parsimony_kernel.testing.provider import Reply, Step, rate_limited
from parsimony_kernel.testing.scripted import call, calls

MODEL = "openai/written-by-us"
# In US dollars for a token of the request, and for one of the answer.
PRICES = (1e-6, 4e-6)

# The size of a request is reckoned by a rule, so that a recording made again is the same.
_TOKENS_OF_EVERY_REQUEST = 3_000
_TOKENS_OF_A_MESSAGE = 300
_CHARACTERS_OF_A_TOKEN = 4


def _weighed(reply: Completion) -> Step:
    """``reply``, to be paid for by its size and by the length of the conversation."""

    def step(body: dict[str, Any]) -> Reply:
        message = reply.message
        written = [message.content or "", *(each.function.arguments for each in message.tool_calls)]
        usage = Usage(
            _TOKENS_OF_EVERY_REQUEST + _TOKENS_OF_A_MESSAGE * len(body["messages"]),
            1 + len("".join(written)) // _CHARACTERS_OF_A_TOKEN,
        )
        return replace(reply, usage=usage)

    return step


def _answers(*replies: Completion) -> tuple[Step, ...]:
    return tuple(map(_weighed, replies))


def _code(text: str, purpose: str, code: str) -> Completion:
    return calls(call("run_code", purpose=purpose, code=code.strip()), text=text)


def _done(summary: str) -> Completion:
    return call("return_done", summary=summary)


_LOAD = """
import pandas as pd

jobs = pd.read_csv("data/us-employment.csv")
jobs.iloc[:3, :4]
"""

_TOTAL_MISTAKEN = """
total = jobs.set_index("month")["nonfarm"]
jobs.groupby(jobs["month"].dt.year)["nonfarm"].mean().round(0)
"""

_TOTAL = """
jobs["month"] = pd.to_datetime(jobs["month"])
total = jobs.set_index("month")["nonfarm"]
peak = total[:"2008"].idxmax()
bottom = total["2008":].idxmin()
back = total[bottom:][lambda later: later >= total[peak]].index[0]
pd.DataFrame({"month": [peak, bottom, back], "nonfarm": total[[peak, bottom, back]].tolist()})
"""

_SECTORS = """
sectors = [
    "mining_and_logging", "construction", "manufacturing", "trade_transportation_utilties",
    "information", "financial_activities", "professional_and_business_services",
    "education_and_health_services", "leisure_and_hospitality", "other_services", "government",
]
by_sector = jobs.set_index("month")[sectors]
lost = by_sector.loc[bottom] - by_sector.loc[peak]
losses = pd.DataFrame({"thousands": lost, "percent": (100 * lost / by_sector.loc[peak]).round(1)})
losses = losses.sort_values("percent").rename_axis("sector").reset_index()
print(losses.to_string(index=False))
"""

_RECOVERY = """
import altair as alt

index = (100 * by_sector / by_sector.loc["2008-01-01"]).round(1)
shown = ["construction", "manufacturing", "information", "leisure_and_hospitality",
         "education_and_health_services"]
recovery = index[shown].rename_axis("month").reset_index().melt("month", var_name="sector")
recovery_chart = (
    alt.Chart(recovery)
    .mark_line()
    .encode(
        x=alt.X("month:T", title=None),
        y=alt.Y("value:Q", title="jobs, January 2008 = 100", scale=alt.Scale(zero=False)),
        color=alt.Color("sector:N", sort=shown, title=None),
    )
    .properties(title="Jobs by sector, January 2008 = 100", width=520, height=300)
)
print(index[shown].iloc[-1].to_string())
recovery_chart
"""

_REPORT = """\
Jobs in the United States peaked in January 2008, were fewest in February 2010, and were as many \
as before in May 2014.

![Jobs by sector, January 2008 = 100](artifact:recovery_chart)

Construction, manufacturing and information had not come back by December 2015.
"""

_REAL_MODEL: tuple[Step, ...] = (
    rate_limited("1"),
    *_answers(
        _code("I look at the file first.", "Load the jobs table", _LOAD),
        _code(
            "One row is a month, and `nonfarm` counts all jobs in thousands. Now the yearly "
            "means, to see when the fall began.",
            "Jobs by year",
            _TOTAL_MISTAKEN,
        ),
        _code(
            "`month` was read as text. I turn it into dates, and look for the months "
            "themselves, which says more than yearly means.",
            "Peak, lowest month and recovery",
            _TOTAL,
        ),
        _code("Now the sectors between these two months.", "Losses by sector", _SECTORS),
        _done(
            "Jobs were fewest in **February 2010**: 129,726 thousand, after 138,419 thousand in "
            "January 2008. They were as many again in May 2014.\n\n"
            "Construction lost most of its jobs (-26.4 %), then manufacturing (-16.6 %), which "
            "lost most in numbers (-2,272 thousand). Government and education_and_health_services "
            "had more jobs than before.\n\n"
            "The table is in `losses`."
        ),
        calls(
            call(
                "ask_user",
                question="What is each sector to be compared with?",
                context="The sectors differ in size, so a chart of thousands shows the large ones "
                "only.",
                choices=[
                    "January 2008, when all jobs together peaked",
                    "the sector's own highest month before 2010",
                    "nothing: thousands of jobs",
                ],
            ),
            text="A recovery is one from something, and I can think of three.",
        ),
        _code(
            "So January 2008 is 100 for all of them. I draw those that lost most, and two that "
            "grew.",
            "Draw the recovery",
            _RECOVERY,
        ),
        calls(
            call(
                "return_chart",
                variable="recovery_chart",
                title="Jobs by sector, January 2008 = 100",
                description="Lines of five sectors, January 2008 as 100: construction falls to "
                "about 70 and stays lowest, education and health grows throughout.",
            )
        ),
        _done(
            "The chart is published. In December 2015 construction stood at 88.7, manufacturing "
            "at 90.1 and information at 91.3 of January 2008; leisure_and_hospitality at 113.8 "
            "and education_and_health_services at 117.6."
        ),
        call("return_report", title="After the recession", body=_REPORT),
        _done("The report 'After the recession' is published."),
    ),
)

_RAIN = """
rain = (
    weather.groupby(weather["date"].dt.to_period("M").astype(str))["precipitation"]
    .sum()
    .round(1)
    .rename_axis("month")
    .reset_index()
)
rain.head(3)
"""

_YOUR_TOOLS: tuple[Step, ...] = _answers(
    calls(
        *(call("heating_degree_days", year=year) for year in range(2012, 2016)),
        text="There is a tool that reckons this by your rule, so I ask it for each year.",
    ),
    _done(
        "The need for heating fell each year: 1835.2 degree days in 2012, 1729.8 in 2013, 1466.4 "
        "in 2014 and 1408.8 in 2015."
    ),
    calls(call("station_mean", month="2015-07"), text="I ask the station."),
    calls(
        call("station_mean", month="2015-07", unit="C"),
        text="That was in Fahrenheit. I ask for Celsius.",
    ),
    _done("The mean of July 2015 was 21.8 °C."),
    call("station_mean", month="2011-07", unit="C"),
    call(
        "return_unable",
        rationale="Whether July 2011 was warmer cannot be told from here: the station's months "
        "begin with 2012-01.",
        blockers=["the station has no 2011-07"],
        suggested_next_steps=["Compare with July 2012, which it has."],
    ),
    _code("First the sums.", "Precipitation by month", _RAIN),
    calls(
        call("return_dataset", variable="rain", title="Monthly precipitation"),
        text="I publish the table.",
    ),
    calls(
        call("check_months", table="rain"),
        text="It has to be checked before that. I have it checked.",
    ),
    call(
        "return_dataset",
        variable="rain",
        title="Monthly precipitation",
        description="Precipitation in Seattle in mm, one row for each month of 2012 to 2015.",
    ),
    _done("The table of 48 months is checked, and published as 'Monthly precipitation'."),
)

SCRIPTS: dict[str, Sequence[Step]] = {
    "05_your_tools": _YOUR_TOOLS,
    "06_real_model": _REAL_MODEL,
}
