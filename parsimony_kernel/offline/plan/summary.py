"""What was done, in sentences; numbers are those that were printed."""

from parsimony_kernel.offline.plan.records import keep_calls, prepared_calls, result_calls, told
from parsimony_kernel.offline.plan.refreshing import REFRESH, told_refresh
from parsimony_kernel.offline.plan.reporting import REPORT, told_report
from parsimony_kernel.offline.plan.step import Source, Work
from parsimony_kernel.offline.plan.turn import NOTE, Turn


def summarise(turn: Turn, work: Work) -> str:
    """The summary of the turn."""
    parts = [_loaded_text(turn, source) for source in work.sources]
    for call in (*prepared_calls(turn), *keep_calls(turn), *result_calls(turn)):
        parts.append(told(call))
    for done in turn.transcript.calls:
        if done.name in ("return_chart", "return_dataset") and done.ok:
            kind = "chart" if done.name == "return_chart" else "dataset"
            name, title = done.arguments.get("variable"), done.arguments.get("title")
            parts.append(f"Published the {kind} `{name}` as {title!r}.")
        elif done.name == REPORT and done.ok:
            parts.append(told_report(done))
        elif done.name == REFRESH and done.ok:
            parts.append(told_refresh(done))
    notes = [
        line[len(NOTE) :]
        for text in turn.transcript.said
        for line in text.splitlines()
        if line.startswith(NOTE)
    ]
    parts += dict.fromkeys([*notes, *(f"{n}." for n in turn.notes if f"{n}." not in notes)])
    return " ".join(p for p in parts if p) or "There was nothing to do."


def _loaded_text(turn: Turn, source: Source) -> str:
    table = turn.tables.get(source.name)
    if table is None or table.rows is None:
        return f"Loaded `{source.name}` from {source.path}."
    return (
        f"Loaded `{source.name}` from {source.path}: {table.rows:,} rows, "
        f"{len(table.columns)} columns."
    )
