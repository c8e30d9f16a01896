"""Workspace commands: ``verify``, ``refresh``, ``purge``, ``journal``, ``trust``, ``metrics``."""

import argparse
import asyncio
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from parsimony_agent.pending import Misuse
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.cli import output
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.session import maintenance
from parsimony_kernel.storage import workspace


def verify(arguments: argparse.Namespace) -> int:
    """Check that the journal and everything published are intact."""
    folder = arguments.folder.resolve()
    bad, found = maintenance.verify_in(folder)
    is_well = bad is None and found.ok
    if arguments.json:
        entry, problem = bad or (None, None)
        head = {"ok": is_well, "journal_entry": entry or None, "journal_problem": problem}
        output.as_json({**head, **asdict(found)})
    else:
        tell = output.say if is_well else output.fail
        tell("\n".join(maintenance.report_of(bad, found)))
    return output.DONE if is_well else output.FAILED


def refresh(arguments: argparse.Namespace) -> int:
    """Rerun published artifacts from their code and sources."""
    if bool(arguments.name) == arguments.all:
        raise Misuse(
            "refresh runs the code of what was published: name what to make again, or give --all."
        )
    return asyncio.run(_refresh(arguments))


async def _refresh(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.artifacts.refresh import in_words

    reports = list[dict[str, Any]]()
    async for name, done in maintenance.refresh_in(
        arguments.folder.resolve(),
        arguments.name,
        accept=arguments.accept,
        allow=arguments.allow,
        trust=arguments.trust,
    ):
        reports.append(_described(name, done))
        if arguments.json:
            continue
        if isinstance(done, Exception):
            output.fail(f"{name}: {done}")
        else:
            output.say(in_words(done))
    is_well = all(one["ok"] for one in reports)
    if arguments.json:
        output.as_json({"ok": is_well, "artifacts": reports})
    elif not reports:
        output.say("Nothing that code has made is published here.")
    return output.DONE if is_well else output.FAILED


def _described(name: str, done: Any) -> dict[str, Any]:
    """Return a refresh result as JSON data; ``done`` is the result or the exception."""
    problem = str(done) if isinstance(done, Exception) else None
    entry = None if problem is not None else done.entry
    facts = {key: getattr(entry, key, None) for key in ("kind", "path")}
    facts["changed"] = getattr(done, "changed", None)
    sources = [] if entry is None else list(done.sources)
    return {"name": name, "ok": problem is None, **facts, "sources": sources, "problem": problem}


def purge(arguments: argparse.Namespace) -> int:
    """Delete old turns and replaced files."""
    before = SYSTEM_CLOCK.now() - timedelta(seconds=arguments.older_than)
    gone, copies, size = maintenance.forget_in(arguments.folder.resolve(), before)
    if arguments.json:
        of_copies = {"copies": copies, "copied_bytes": size}
        output.as_json({"before": before.isoformat(), **asdict(gone), **of_copies})
        return output.FAILED if gone.unfinished else output.DONE
    lines = [f"Deleted, from before {before:%Y-%m-%d %H:%M} UTC: turns {gone.turns:,}."]
    if copies:
        lines.append(f"Deleted, replaced files: {copies:,}, bytes {size:,}.")
    if gone.kept:
        lines.append(f"Old turns that somebody may still need stay: {gone.kept:,}.")
    output.say("\n".join(lines))
    return output.fail(gone.unfinished) if gone.unfinished else output.DONE


def journal(arguments: argparse.Namespace) -> int:
    """Print the journal's path, or set the journal aside."""
    from parsimony_kernel.storage.database import set_aside

    path = workspace.journal_path(workspace.find_workspace(arguments.folder.resolve()))
    if not arguments.set_aside:
        output.say(str(path) if path.exists() else f"{path} (no journal yet)")
        return output.DONE
    kept = set_aside(path)
    if kept is None:
        return output.fail(f"There is no journal {str(path)!r}. Name its folder with --folder.")
    output.say(f"The journal is {str(kept)!r} now, with its logs. The next turn begins a new one.")
    return output.DONE


def trust(arguments: argparse.Namespace) -> int:
    """Accept the artifacts and the journal in their current state."""
    root = workspace.find_workspace(arguments.folder.resolve())
    store = ArtifactStore(root)
    for place in dict.fromkeys((str(root.resolve()), store.place.address)):
        workspace.trust(place)
        output.say(f"The code of what is published in {place!r} may run when it is refreshed.")
    if workspace.journal_path(root).is_file():
        with maintenance.journal_of(root, writes=True) as opened:
            bad = opened.verify()
            opened.accept(store.lines())
        found = f" What was found before: {bad[1].partition('; ')[0]}." if bad else ""
        output.say(f"The journal is sealed as it is now.{found}")
    return output.DONE


def metrics(arguments: argparse.Namespace) -> int:
    """Print metrics of the recent turns."""
    from parsimony_kernel.metrics import figures, prometheus

    with maintenance.journal_of(arguments.folder.resolve()) as opened:
        turns = opened.turns()[-maintenance.RECENT_TURNS :]
        recent = [opened.events(turn.run_id) for turn in turns]
    if arguments.prometheus:
        output.say(prometheus.of_runs(recent).exposition().rstrip("\n"))
        return output.DONE
    counted = figures.of_runs(recent)
    return output.give(arguments, figures.to_json(counted), figures.report(counted))
