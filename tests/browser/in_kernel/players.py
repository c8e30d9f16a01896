"""Models that play in the kernels of the browser tests, and what feeds a record by hand.

On the kernel's path: ``from players import steps`` and ``%agent model steps``.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel.core.chat import Completion, Delta, ModelRequest
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls

DONE = call("return_done", summary="Finished as asked.")


class RateLimitError(Exception):
    """What a provider's client raises for HTTP 429."""

    status_code = 429


class Cued(ScriptedModel):
    """Gives each answer when the test has written a byte into the pipe ``cue``."""

    def __init__(self, steps: Sequence[Step], name: str = "cued") -> None:
        super().__init__(steps, name)
        self._cue = str(Path("cue").resolve())

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        await self._wait()
        async for each in super().stream(request):
            yield each

    async def _wait(self) -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        end = os.open(self._cue, os.O_RDWR | os.O_NONBLOCK)
        loop.add_reader(end, told.set)
        try:
            await told.wait()
            os.read(end, 1)
        finally:
            loop.remove_reader(end)
            os.close(end)


def code(source: str, purpose: str, say: str | None = None) -> Completion:
    """An answer that runs ``source``."""
    return calls(call("run_code", code=source, purpose=purpose), text=say)


SALES = "import pandas as pd\n\nsales = pd.DataFrame({'region': ['north', 'south'], 'sum': [3, 4]})"

# It holds the kernel's thread, as fitting a model does.
SLOW = """import time

for fold in range(1, 4):
    print("fold", fold)
    time.sleep(1)
total = int(sales['sum'].sum())"""


def live() -> Cued:
    """Two steps and the end, each on its cue."""
    return Cued(
        [
            code(f"{SALES}\nsales", "Load the sales", "I look at the sales first."),
            code(f"{SLOW}\nprint('In all:', total)", "Add them up"),
            call("return_done", summary="The sales are `7` in all."),
        ]
    )


def troubled() -> ScriptedModel:
    """A provider that is busy at first, code that fails, and the same code mended."""
    return ScriptedModel(
        [
            RateLimitError("429 Too Many Requests"),
            code(SALES, "Load the sales"),
            code("total = sum(map(int, sales['region']))", "Add them up"),
            code("total = sales['sum'].sum()\ntotal", "Add them up", "The regions are words."),
            call("return_done", summary="The sales are 7 in all."),
        ],
        name="troubled",
    )


FIVE = ("north", "south", "east", "west", "all of them")


def asking(times: int = 1) -> ScriptedModel:
    """Asks the same five choices ``times`` times, then ends."""
    question = call("ask_user", question="Which region do you mean?", choices=list(FIVE))
    return ScriptedModel([*[question] * times, DONE], name="asking")


def careful() -> ScriptedModel:
    """Wants to set one variable, and ends whatever comes of it."""
    return ScriptedModel([code("touched = 1", "Set touched"), DONE], name="careful")


TOUR = '''import altair as alt
import pandas as pd

# Rain in millimetres, by station and month.
class Station:
    """One place where rain is measured."""

    def __init__(self, name: str, height_m: float = 12.5) -> None:
        self.name, self.height_m = name, height_m

stations = [Station(name) for name in ("Altona", "Bergedorf", "Wandsbek")]
rain = pd.DataFrame(
    {f"precipitation_{month:02}": [month * 1.5, None, 3.0] for month in range(1, 13)},
    index=[station.name for station in stations],
)
print(len(rain), "stations", "with a long line " * 12)
rain'''


def tour() -> ScriptedModel:
    """Something of everything that a record can hold, with a question at its end."""
    return ScriptedModel(
        [
            RateLimitError("429 Too Many Requests"),
            code(TOUR, "Load the rain", "I look at `rain` first.\n\n- one\n- two"),
            code("wettest = rain.sum().nlargest(1).index[3]", "Find the wettest month"),
            code(
                "drawing = alt.Chart(rain.reset_index(), title='Rain in January').mark_bar()"
                ".encode(x='index:N', y='precipitation_01:Q').properties(width=900)\ndrawing",
                "Draw it",
            ),
            call("return_dataset", variable="rain", title="Rain by station and month"),
            call(
                "ask_user",
                question="Which month of `rain` do you mean?",
                context="A name without a space: " + "precipitation_" * 12,
                choices=["January", "A choice of several words " * 8, "x" * 160],
            ),
            DONE,
        ],
        name="tour",
    )


class Mumbling(Cued):
    """Says the beginning of a sentence, and goes on when it is told."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        yield Delta(text="The sales rise in spring, and")
        async for each in super().stream(request):
            yield each


def mumbling() -> Mumbling:
    """Waits for its cue in the middle of a sentence."""
    return Mumbling([DONE], name="mumbling")


def stuck() -> Cued:
    """Works a step, then waits for a cue that may never come."""
    return Cued([code("kept = 42", "Keep a number"), DONE], name="stuck")


def draw(events: Sequence[AgentEvent]) -> str:
    """Draw the run of ``events`` in the cell that runs now, as if it had been followed there."""
    from IPython import get_ipython

    from parsimony_agent.publisher import Displays, outlet_of
    from parsimony_agent.record_display import Place, TurnRecord
    from parsimony_kernel.view.fold import replay

    shell: Any = get_ipython()
    record = TurnRecord(Place(Displays(outlet_of(shell))), view=replay(events))
    record.draw(ended=True)
    if record.trouble is not None:
        raise record.trouble
    return "all drawn"


# What a page that shows these words must not run, load or make something to click of.
HOSTILE = (
    "<img src=https://example.org/a.png onerror=alert(1)><script>alert(2)</script>"
    '"><button data-commandlinker-command="filebrowser:create-new-directory">go</button>'
    "' onfocus=alert(3) autofocus x=' [link](javascript:alert(4)) ![i](https://example.org/b.png)"
    " <https://example.org/c> https://example.org/d www.example.org \x1b[31mred\x1b]8;;"
    "https://example.org/e\x07link\x1b]8;;\x07 \u202egnp.exe\u2066 \x00 </pre></details></style>"
    "<style>*{display:none}</style><svg onload=alert(5)><iframe src=//example.org/f>"
)


def hostile(words: str = HOSTILE) -> ScriptedModel:
    """Says and makes ``words`` wherever a model and data can."""
    first = (
        f"# {words}\nimport pandas as pd\nimport sys\nfrom players import HOSTILE as words\n"
        "print(words)\nprint(words, file=sys.stderr)\nprint(words * 2_000)\n"
        "frame = pd.DataFrame({words: [words, 'x']})\nglobals()[words] = frame\nframe"
    ).replace("\x00", "\\x00")
    drawing = (
        "import altair as alt\n"
        "chart = alt.Chart(pd.DataFrame({'a': [1, 2], 'b': [words, 'x']}), title=words)"
        ".mark_bar().encode(x='a:Q', y='b:N')\nchart"
    )
    return ScriptedModel(
        [
            ConnectionError(words),
            code(first, words, words),
            code("words", words),
            code("raise ValueError(words)", words),
            code(drawing, words),
            call("return_chart", variable="chart", title=words[:200], description=words),
            call("return_dataset", variable="frame", title=words[-200:], description=words),
            call(
                "ask_user",
                question=words,
                context=words,
                choices=[f"{words} {number}" for number in range(5)],
            ),
            call("return_unable", rationale=words, blockers=[words], suggested_next_steps=[words]),
        ],
        name="hostile",
    )


def reaching() -> ScriptedModel:
    """Wants to reach outside, which somebody has to allow."""
    source = "import subprocess\n\nsubprocess.run(['fetch', 'rates.csv'], check=True)"
    return ScriptedModel([code(source, "Fetch the rates"), DONE], name="reaching")


def averaging() -> ScriptedModel:
    """Shows a table of twelve rows and says what is in it."""
    source = (
        "import pandas as pd\n\npower = pd.read_csv('data/iowa-electricity.csv')\n"
        "mean_by_source = power.groupby(['source', 'year'])['net_generation'].mean()"
        ".reset_index()\nmean_by_source"
    )
    summary = "Fossil fuels are highest in every year: 35,361 in 2001 and 42,750 in 2010."
    end = call("return_done", summary=summary)
    return ScriptedModel([code(source, "Mean by source and year"), end], name="averaging")


def publishing() -> ScriptedModel:
    """Publishes a table, and a report that shows it."""
    made = code(SALES, "Load the sales")
    kept = call("return_dataset", variable="sales", title="Sales by region")
    body = "South sold **4**, north 3.\n\n![Sales](artifact:sales)"
    told = call("return_report", title="Sales report", body=body)
    end = call("return_done", summary="South leads: 4 of 7 sales.")
    return ScriptedModel([made, kept, told, end], name="publishing")
