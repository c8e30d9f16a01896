"""What is published is made again; what stands against it is handed on in its own words."""

from typing import Any

from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.grammar.clauses import Refresh
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.step import Step, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import fold, spoken

REFRESH = "refresh"


def refresh(turn: Turn, work: Work) -> Step | None:
    """The step that refreshes what was not refreshed yet."""
    calls: list[tuple[str, dict[str, Any]]] = []
    names: list[str] = []
    for clause in work.refreshing:
        if REFRESH not in turn.tools:
            raise Declined(
                "There is no tool to refresh with.", [f"{REFRESH} is not among the tools"]
            )
        title, words = _meant(turn, clause)
        arguments = {"artifact": words, "accept_changed_sources": clause.new_data}
        before = [
            c for c in turn.transcript.calls if c.name == REFRESH and c.arguments == arguments
        ]
        if any(c.ok for c in before):
            continue
        if any(c.failed for c in before):
            raise _declined(clause, title, before[-1])
        calls.append((REFRESH, arguments))
        names.append(repr(title))
    return Step(f"I refresh {spoken(names)}.", tuple(calls)) if calls else None


def told_refresh(call: Call) -> str:
    """A finished refresh as sentences."""
    result = call.result
    kind, title = result.get("kind", "artifact"), result.get("title")
    changed = result.get("changed")
    text = f"Refreshed the {kind} {title!r}: " + (
        "its content is another now" if changed else "it comes out as it was"
    )
    place = result.get("page") or (result.get("path") if changed else "")
    parts = [f"{text}{f' ({place})' if place else ''}."]
    sources = result.get("changed_sources")
    if isinstance(sources, list) and sources:
        parts.append(f"What had changed: {spoken(map(str, sources))}.")
    shown = result.get("parts")
    if isinstance(shown, list):
        new = [repr(p.get("title")) for p in shown if isinstance(p, dict) and p.get("changed")]
        parts += [f"Of what it shows, {spoken(new)} changed."] if new else []
    if kind == "report" and changed:
        parts.append("Its sentences stay as they were written.")
    return " ".join(parts)


def _declined(clause: Refresh, title: str, call: Call) -> Declined:
    steps = ["Ask again once that is settled."]
    if not clause.new_data and "changed since" in call.error_text:
        steps = [f"If the new data is meant: refresh {title!r} with the new data."]
    return Declined(
        f"{title!r} could not be refreshed.",
        [call.error_text[:400] or call.error_type],
        steps,
    )


def _meant(turn: Turn, clause: Refresh) -> tuple[str, str]:
    """The title of what is meant, and the words that name it and nothing else."""
    listed = turn.transcript.artifacts
    for kind, words in ((clause.kind, clause.name), (None, clause.words)):
        found = [
            a for a in listed
            if kind in (None, a.get("kind")) and words
            and fold(str(a.get("title"))) == fold(words)
        ]  # fmt: skip
        if found:
            return _one_of(turn, found)
    if clause.name:
        return clause.name, clause.name
    found = [a for a in listed if clause.kind in (None, a.get("kind"))]
    if not found:
        what = clause.kind or "artifact"
        raise Declined(
            f"There is no {what} to refresh.",
            [f"no {what} is published in this workspace"],
            ["Name what is meant by its title, for instance: refresh 'Power by origin'."],
        )
    return _one_of(turn, found)


def _one_of(turn: Turn, found: list[Any]) -> tuple[str, str]:
    labels = {f"the {a.get('kind')} {str(a.get('title'))!r}": a for a in found}
    label = next(iter(labels))
    if len(labels) > 1:
        label = choose(turn.answers, "What should I refresh?", list(labels)[-8:])
    chosen = labels[label]
    title = str(chosen.get("title"))
    alike = [a for a in turn.transcript.artifacts if fold(str(a.get("title"))) == fold(title)]
    # A title that several have names none of them: the folder is called by the id.
    path = str(chosen.get("path") or "").split("/")
    return title, path[-2] if len(alike) > 1 and len(path) > 2 else title
