"""The tables of a run, and the bytes of its losses, as Markdown."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from benchmarks.recovery.oracle import Json
from benchmarks.recovery.verdict import VERDICTS, Outcome

OURS = "parsimony"


def file_of(outcome: Outcome) -> str:
    """The name of the file that shows the losses of the column of ``outcome``."""
    return f"{outcome.system}-{outcome.setup.replace(' ', '-')}.txt"


def tables(cases: Sequence[Json], outcomes: Sequence[Outcome]) -> str:
    """One line for each system and setup, then what each system lost."""
    rows = {case["name"]: case for case in cases}
    columns: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        columns[outcome.system, outcome.setup].append(outcome)
    return "\n".join([*_summary(rows, columns), "", *_losses(rows, outcomes)])


def _summary(rows: dict[str, Json], columns: dict[tuple[str, str], list[Outcome]]) -> Iterator[str]:
    heads = [
        "system",
        "setup",
        "as the row asks",
        *VERDICTS,
        "doubled effects",
        "requests",
        "seconds",
    ]
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for (system, setup), each in columns.items():
        judged = [one for one in each if one.verdict not in ("not judged", "not applicable")]
        fine = sum(not one.is_loss(rows[one.case]) for one in judged)
        counts = [sum(one.verdict == verdict for one in each) for verdict in VERDICTS]
        doubled = sum(one.doubled for one in each)
        requests = sum(one.requests for one in each)
        seconds = sum(one.seconds for one in each)
        facts = [f"{fine} of {len(judged)}", *counts, doubled, requests, f"{seconds:.0f}"]
        yield f"| {system} | {setup} | {' | '.join(map(str, facts))} |"


def _losses(rows: dict[str, Json], outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "| system | row | as shipped | tuned |"
    yield "| --- | --- | --- | --- |"
    by_row: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.is_loss(rows[outcome.case]):
            by_row[outcome.system, outcome.case].append(outcome)
    for (system, case), each in by_row.items():
        cells = {one.setup: _cell(one) for one in each}
        told = (cells.get(setup, "") for setup in ("as shipped", "tuned"))
        yield f"| {system} | {case} | {' | '.join(told)} |"


def _cell(outcome: Outcome) -> str:
    why = outcome.why or "recovery was possible"
    lenient = f"; {outcome.lenient} with a lenient provider" if outcome.lenient else ""
    return f"[{outcome.verdict}](recovery/{file_of(outcome)}): {why}{lenient}"


def evidence(cases: Sequence[Json], outcomes: Sequence[Outcome]) -> dict[str, str]:
    """What each loss looks like on the wire and what the system told, a text for each column."""
    rows = {case["name"]: case for case in cases}
    texts: dict[str, str] = defaultdict(str)
    for outcome in outcomes:
        case = rows[outcome.case]
        if outcome.is_loss(case):
            reported = "".join(f"\nReported: {each}" for each in case.get("threads", ()))
            texts[file_of(outcome)] += (
                f"=== {outcome.case}\n\n"
                f"Wanted: {case['want']}. It came to: {outcome.verdict}"
                f"{f', {outcome.why}' if outcome.why else ''}.{reported}\n\n"
                f"--- What it told\n{outcome.text}\n\n"
                f"--- The last exchanges with the provider\n{outcome.bytes}\n\n\n"
            )
    return texts
