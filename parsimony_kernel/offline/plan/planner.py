"""From a transcript to the next step.

The stages are always the same: load, prepare, understand, look or ask, keep rows, compute,
publish, refresh, finish.
Where a turn stands is read off its transcript each time; nothing is remembered between requests.
"""

import re
from collections.abc import Sequence
from typing import Any

from parsimony_kernel.offline.missing import Ask, Declined, Stopped, is_stop
from parsimony_kernel.offline.phrases import help_steps
from parsimony_kernel.offline.plan.computing import check_failures, compute, is_computed
from parsimony_kernel.offline.plan.deriving import derive
from parsimony_kernel.offline.plan.division import divide
from parsimony_kernel.offline.plan.emptiness import check_results, check_rows
from parsimony_kernel.offline.plan.joining import join
from parsimony_kernel.offline.plan.keeping import keep
from parsimony_kernel.offline.plan.loading import load_sources
from parsimony_kernel.offline.plan.publishing import publish
from parsimony_kernel.offline.plan.refreshing import refresh
from parsimony_kernel.offline.plan.reporting import report
from parsimony_kernel.offline.plan.step import Step
from parsimony_kernel.offline.plan.summary import summarise
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.plan.understanding import understand
from parsimony_kernel.offline.transcript import Transcript
from parsimony_kernel.offline.words import is_data_file, spoken, tokenize

MAX_REQUEST = 2_000
_MEND = re.compile(
    r"\s*(?:a cell of this notebook failed\b"
    r"|(?:please )?(?:fix|mend|repair|debug)\b[^.\n]{0,60}\b(?:error|cell|code|bug|exception)\b)",
    re.IGNORECASE,
)


def next_step(transcript: Transcript, tools: Sequence[str]) -> Step:
    """What to say and which tools to call next; ``tools`` are the names that may be called."""
    turn = Turn(transcript, tools)
    try:
        return _planned(turn)
    except Ask as missing:
        return _ask(turn, missing)
    except Declined as declined:
        return _decline(turn, declined)
    except Stopped:
        return _finish(turn, "Stopped, as you said. Nothing more was done.")


def _planned(turn: Turn) -> Step:
    _check_request(turn)
    work = divide(turn, tokenize(turn.transcript.request, _odd_names(turn.files)))
    step = load_sources(turn, work) or join(turn, work) or derive(turn, work)
    if step is not None:
        return step
    if not is_computed(turn, work):
        check_failures(turn)
        check_rows(turn, work)
        step = understand(turn, work) or keep(turn, work) or compute(turn, work)
        if step is not None:
            return step
    check_results(turn)
    step = publish(turn, work) or report(turn, work) or refresh(turn, work)
    return step or _finish(turn, summarise(turn, work))


def _check_request(turn: Turn) -> None:
    request = turn.transcript.request
    if any(is_stop(remark) for remark in turn.transcript.remarks):
        raise Stopped
    if not request:
        raise Declined("The request is empty.", ["there is nothing to do"], help_steps(short=True))
    if len(request) > MAX_REQUEST:
        raise Declined(
            f"The request has {len(request):,} characters; the offline model reads "
            f"{MAX_REQUEST:,} at most.",
            ["the request is too long for the offline model"],
            ["Say it shorter, or in several cells.", *help_steps(short=True)],
        )
    if _MEND.match(request):
        raise Declined(
            "Mending code takes a model that reads and writes Python; the offline model does not.",
            ["the request is to mend code"],
            help_steps(short=True)[-1:],
        )
    if "run_code" not in turn.tools:
        raise Declined("There is no tool to run code with.", ["run_code is not among the tools"])


def _odd_names(files: Sequence[str]) -> list[str]:
    """Files whose names are not one plain word: they are looked for in the text as they are."""
    bases = [f.rpartition("/")[2] for f in files]
    return [n for n in [*files, *bases] if is_data_file(n) and re.search(r"[^\w.\-/]", n)]


# -- endings -------------------------------------------------------------------------------------


def _ask(turn: Turn, missing: Ask) -> Step:
    if "ask_user" not in turn.tools:
        return _decline(
            turn,
            Declined(
                "I need an answer and there is no tool to ask with.",
                [missing.question],
                [f"Say it in the request: {spoken(missing.choices, 'or')}."],
            ),
        )
    arguments: dict[str, Any] = {"question": missing.question}
    if missing.context:
        arguments["context"] = missing.context
    if missing.choices:
        arguments["choices"] = list(missing.choices)
    return Step("I need to know one thing first.", (("ask_user", arguments),))


def _decline(turn: Turn, declined: Declined) -> Step:
    if "return_unable" not in turn.tools:
        return Step(" ".join([declined.rationale, *declined.steps]))
    arguments = {
        "rationale": declined.rationale,
        "blockers": list(declined.blockers) or [declined.rationale],
        "suggested_next_steps": list(declined.steps) or help_steps(short=True),
    }
    return Step("I cannot do this.", (("return_unable", arguments),))


def _finish(turn: Turn, summary: str) -> Step:
    if "return_done" not in turn.tools:
        return Step(summary)
    return Step("That is done.", (("return_done", {"summary": summary}),))
