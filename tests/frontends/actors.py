"""Models that play their part in notebooks under test.

A copy lies beside the notebook: ``from actors import analyst``, then ``%agent model analyst``.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from parsimony_kernel.core.chat import Completion, Delta, ModelRequest
from parsimony_kernel.testing.scripted import ScriptedModel, call, calls

# What a page that is made of a record must not be able to run, load or click.
HOSTILE = (
    "<img src=https://example.org/a.png onerror=alert(1)> [link](https://example.org/b) "
    "![picture](https://example.org/c.png) <script>alert(2)</script>"
)


class RateLimitError(Exception):
    """What a provider's client raises for HTTP 429."""

    status_code = 429


analyst = ScriptedModel(
    [
        RateLimitError("429 Too Many Requests"),
        calls(
            call(
                "run_code",
                purpose="Rain by month",
                code=(
                    "import pandas as pd\n\n"
                    "rain = pd.DataFrame({'month': [1, 2, 3], 'total': [4.5, 6.25, 1.75]})\n"
                    "print('Months:', len(rain))\n"
                    "rain"
                ),
            ),
            text=f"I look at the rain first. {HOSTILE}",
        ),
        call("run_code", purpose="The wettest", code="wettest = rain['totals'].max()"),
        call("run_code", purpose="The wettest", code="wettest = rain['total'].max()\nwettest"),
        call(
            "run_code",
            purpose="Draw it",
            code=(
                "import altair as alt\n\n"
                "drawing = alt.Chart(rain).mark_bar().encode(x='month:O', y='total:Q')\n"
                "drawing"
            ),
        ),
        call("return_dataset", variable="rain", title="Rain", description="Rain of each month."),
        call(
            "ask_user",
            question=f"Shall the chart be published? {HOSTILE}",
            context="It has three bars.",
            choices=["Yes, publish it", "No, leave it"],
        ),
        call("return_chart", variable="drawing", title="Rain by month", description="Three bars."),
        call("return_done", summary=f"The most rain was 6.25, in month 2. {HOSTILE}"),
    ],
    name="analyst",
)

asking = ScriptedModel(
    [
        call("run_code", purpose="Two numbers", code="numbers = [3, 4]\nnumbers"),
        call("ask_user", question="Sum or product?", choices=["the sum", "the product"]),
        call("run_code", purpose="Together", code="together = sum(numbers)\ntogether"),
        call("return_done", summary="Together they are 7."),
    ],
    name="asking",
)

doubling = ScriptedModel(
    [
        call("run_code", purpose="Double it", code="doubled = months * 2\ndoubled"),
        call("return_done", summary="It is doubled."),
    ],
    name="doubling",
)

_WAITING = call(
    "run_code",
    purpose="Wait for ever",
    code=(
        "import time\n\n"
        "with open('bell', 'w') as bell:\n"
        "    bell.write('now')\n"
        "print('Waiting', flush=True)\n"
        "time.sleep(3600)"
    ),
)
# For two turns, neither of which comes to a second request. Who listens at ``bell`` hears when the
# code has begun.
endless = ScriptedModel([_WAITING, _WAITING], name="endless")


class Silent:
    """Says a sentence, rings ``bell`` and falls silent for ever."""

    name = "silent"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        yield Delta(text="Waiting for a thought.\n")
        Path("bell").write_text("now")
        await asyncio.Event().wait()


silent = Silent()
