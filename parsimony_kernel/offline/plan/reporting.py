"""A report is composed of what was observed, and published once what it shows is.

The rule of the place: its sentences hold titles, lines that code printed, and names of files that
were read; whatever comes from data is set as plain text.
"""

from collections.abc import Sequence

from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.observing import observed, observed_beside, plain
from parsimony_kernel.offline.plan.publishing import publications, shown
from parsimony_kernel.offline.plan.sources import told_file
from parsimony_kernel.offline.plan.step import Exhibit, Step, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import fold, spoken

REPORT, READ = "return_report", "read_artifact"
_MAX_TITLE = 120
# A context that lists as many artifacts as this may have left some out.
_LISTED = 20


def report(turn: Turn, work: Work) -> Step | None:
    """The step that publishes a report that was not published yet."""
    for number, (clause, _, _) in enumerate(work.reports):
        exhibits = [_as_published(turn, e) for e in shown(turn, work, number)]
        title = clause.title or _title(exhibits)
        before = [
            c for c in turn.transcript.calls
            if c.name == REPORT and c.arguments.get("title") == title
        ]  # fmt: skip
        if any(c.ok for c in before):
            continue
        if REPORT not in turn.tools:
            raise Declined(
                "There is no tool to publish a report with.", [f"{REPORT} is not among the tools"]
            )
        if before:
            body = _with_ids(turn, exhibits, before)
        else:
            step = _read_back(turn, work, exhibits)
            if step is not None:
                return step
            body = _body(turn, work, exhibits)
        arguments = {"title": title, "body": body, "language": "en"}
        return Step(f"I write the report {title!r}.", ((REPORT, arguments),))
    return None


def told_report(call: Call) -> str:
    """A published report as a sentence."""
    title, place = call.arguments.get("title"), call.result.get("page") or call.result.get("path")
    text = f"Published the report {title!r}: {place}."
    note = call.result.get("note")
    return f"{text} {note}" if note and not call.result.get("page") else text


def _as_published(turn: Turn, exhibit: Exhibit) -> Exhibit:
    """``exhibit`` under the title that it was published with."""
    done = [c for c in publications(turn, exhibit) if c.ok]
    title = str(done[-1].arguments.get("title")) if done else exhibit.title
    return Exhibit(exhibit.kind, exhibit.variable, title, exhibit.base)


def _title(exhibits: Sequence[Exhibit]) -> str:
    titles = list(dict.fromkeys(e.title for e in exhibits))
    text = spoken(titles) or "Report"
    return text if len(text) <= _MAX_TITLE else f"{titles[0]} and {len(titles) - 1} more"


# -- the body ------------------------------------------------------------------------------------


def _body(turn: Turn, work: Work, exhibits: Sequence[Exhibit]) -> str:
    titles = dict.fromkeys(plain(e.title) for e in exhibits)
    lead = [f"Shown here: {'; '.join(titles)}."] if titles else []
    lead += [beside] if (beside := observed_beside(turn)) else []
    figures = _figures(turn, exhibits, headed=len(titles) > 1)
    made = dict.fromkeys(_how(turn, work, e) for e in exhibits) or _loaded(turn, work)
    return "\n\n".join([" ".join(lead), *figures, "## How it was made", *made])


def _figures(turn: Turn, exhibits: Sequence[Exhibit], *, headed: bool) -> list[str]:
    """The exhibits in order, each under its title, with what is said of them."""
    parts: dict[str, None] = {}
    for exhibit in exhibits:
        title = plain(exhibit.title)
        heading = f"## {title}" if headed else ""
        figure = f"![{title}](artifact:{_reference(turn, exhibit)})"
        parts |= dict.fromkeys((heading, figure, observed(turn, exhibit)))
    return [part for part in parts if part]


def _reference(turn: Turn, exhibit: Exhibit) -> str:
    """The variable, unless something published is, or may be, called so by its title."""
    listed = [a.get("title") for a in turn.transcript.artifacts]
    now = [c.arguments.get("title") for c in turn.transcript.calls]
    titles = {"".join(fold(str(title))) for title in (*listed, *now)}
    unclear = "".join(fold(exhibit.variable)) in titles or len(listed) >= _LISTED
    return _logical_id(turn, exhibit) if unclear else exhibit.variable


def _logical_id(turn: Turn, exhibit: Exhibit) -> str:
    done = [c for c in publications(turn, exhibit) if c.ok]
    return str((done[-1].result.get("logical_id") if done else None) or exhibit.variable)


def _with_ids(turn: Turn, exhibits: Sequence[Exhibit], before: Sequence[Call]) -> str:
    """The body that failed, with ids where names were not clear; raises ``Declined``."""
    last = before[-1]
    body = failed = str(last.arguments.get("body", ""))
    if last.error_type == "UnknownArtifactError":
        for exhibit in exhibits:
            named = f"](artifact:{exhibit.variable})"
            body = body.replace(named, f"](artifact:{_logical_id(turn, exhibit)})")
    if body == failed:
        raise Declined(
            f"The report {str(last.arguments.get('title'))!r} could not be published.",
            [f"{last.error_type}: {last.error_text}"[:300]],
            ["What it shows is published. Ask for the report again once that is settled."],
        )
    return body


# -- where it comes from -------------------------------------------------------------------------


def _how(turn: Turn, work: Work, exhibit: Exhibit) -> str:
    what = f"The {exhibit.kind} `{exhibit.variable}` was made"
    listed = _read_sources(turn, exhibit)
    if listed:
        return f"{what} from {spoken(map(plain, listed))}."
    base = exhibit.base or exhibit.variable
    file = _file(turn, work, base)
    if file is None:
        return f"{what} from `{base}`." if exhibit.base else f"{what} in this notebook."
    return f"{what} from {plain(file)}{_then(turn, base)}."


def _loaded(turn: Turn, work: Work) -> list[str]:
    """How numbers without a table or a chart were made."""
    tables = dict.fromkeys(task.table for task in work.tasks)
    return [
        f"Computed from {plain(_file(turn, work, name) or name)}{_then(turn, name)}."
        for name in tables
    ]


def _file(turn: Turn, work: Work, table: str) -> str | None:
    loaded = next((s.path for s in work.sources if s.name == table), None)
    if loaded is not None:
        return loaded
    # The table may be another one by now.
    file, size = told_file(turn, table), _size(turn, table)
    told = f"`{table}` from {file}: {size}."
    same = file is not None and bool(size) and any(told in t for t in turn.transcript.earlier)
    return file if same else None


def _size(turn: Turn, table: str) -> str:
    known = turn.tables.get(table)
    if known is None or known.rows is None or not known.columns:
        return ""
    return f"{known.rows:,} rows, {len(known.columns)} columns"


def _then(turn: Turn, table: str) -> str:
    size = _size(turn, table)
    return f" ({size} then)" if size else ""


def _read_back(turn: Turn, work: Work, exhibits: Sequence[Exhibit]) -> Step | None:
    """The step that reads where exhibits came from that were made before this request."""
    names = [
        _logical_id(turn, e)
        for e in exhibits
        if e.base is None and _file(turn, work, e.variable) is None
    ]
    asked = {c.arguments.get("name") for c in turn.transcript.calls if c.name == READ}
    calls = tuple((READ, {"name": name}) for name in names if name not in asked)
    if not calls or READ not in turn.tools:
        return None
    return Step("I look up where that came from.", calls)


def _read_sources(turn: Turn, exhibit: Exhibit) -> list[str]:
    name = _logical_id(turn, exhibit)
    read = [
        c.result.get("sources")
        for c in turn.transcript.calls
        if c.name == READ and c.ok and c.arguments.get("name") == name
    ]
    return [str(s) for s in read[-1]] if read and isinstance(read[-1], list) else []
