"""The tables of a run, and the bytes of its losses, as Markdown."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from benchmarks.recovery.oracle import Json
from benchmarks.recovery.verdict import VERDICTS, Outcome

OURS = "parsimony"


def anchor(outcome: Outcome) -> str:
    """The name of the place in evidence.md that shows ``outcome``."""
    words = f"{outcome.system} {outcome.setup} {outcome.case}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


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
    return f"[{outcome.verdict}](evidence.md#{anchor(outcome)}): {why}{lenient}"


def evidence(cases: Sequence[Json], outcomes: Sequence[Outcome]) -> str:
    """What each loss looks like on the wire, and what the system did."""
    rows = {case["name"]: case for case in cases}
    parts = ["# Losses, as they were on the wire\n"]
    for outcome in outcomes:
        if not outcome.is_loss(rows[outcome.case]):
            continue
        threads = ", ".join(f"<{each}>" for each in rows[outcome.case].get("threads", ()))
        reported = f" Reported: {threads}." if threads else ""
        parts.append(
            f'<a id="{anchor(outcome)}"></a>\n\n'
            f"## {outcome.case}: {outcome.system}, {outcome.setup}\n\n"
            f"Wanted: {rows[outcome.case]['want']}. It came to: {outcome.verdict}"
            f"{f', {outcome.why}' if outcome.why else ''}.{reported}\n\n"
            f"What it told:\n\n````text\n{outcome.text}\n````\n\n"
            f"The last exchanges with the provider:\n\n````text\n{outcome.bytes}\n````\n"
        )
    return "\n".join(parts)
