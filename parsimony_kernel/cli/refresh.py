"""``refresh``: published artifacts, made again from their code and sources."""

import argparse
import asyncio
import sys
from typing import Any

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command, add_folder, add_json

EXAMPLES: Examples = (
    ('refresh "Monthly mean"', "make it again"),
    ("refresh --all", "all datasets and charts"),
    ("refresh --all --accept", "and publish what changed"),
)
KEYS = {
    "ok": "whether each could be made again",
    "artifacts": "each in order: name, ok, kind, path, changed, mended, sources, problem",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "refresh",
        run,
        "make published artifacts again from their code and sources, in clean kernels",
        examples=EXAMPLES,
        keys=KEYS,
    )
    command.add_argument("name", nargs="*", help="a title, variable or id")
    command.add_argument("--all", action="store_true", help="all datasets and charts")
    command.add_argument(
        "--accept",
        action="store_true",
        help="publish what comes out although it is another; without it that is a failure",
    )
    command.add_argument(
        "--allow",
        action="store_true",
        help="let the code reach outside the notebook; without it, it is stopped before that",
    )
    add_folder(command)
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.artifacts.refresh import in_words
    from parsimony_kernel.session.upkeep import refresh_in

    if bool(arguments.name) == arguments.all:
        return output.misuse(
            "refresh runs the code of what was published: name what to make again, or give --all."
        )

    async def each() -> int:
        told = list[dict[str, Any]]()
        found = refresh_in(
            arguments.folder.resolve(),
            arguments.name,
            accept=arguments.accept,
            allow=arguments.allow,
        )
        async for name, done in found:
            told.append(_described(name, done))
            if arguments.json:
                continue
            if isinstance(done, Exception):
                print(f"{name}: {done}", file=sys.stderr)
            else:
                output.say(in_words(done))
        is_well = all(one["ok"] for one in told)
        if arguments.json:
            output.as_json({"ok": is_well, "artifacts": told})
        elif not told:
            output.say("Nothing that code has made is published here.")
        return output.DONE if is_well else output.FAILED

    return asyncio.run(each())


def _described(name: str, done: Any) -> dict[str, Any]:
    """What was found of one artifact, for a program; ``done`` may be why it could not be made."""
    failed = isinstance(done, Exception)
    return {
        "name": name,
        "ok": not failed,
        "kind": None if failed else done.entry.kind,
        "path": None if failed else done.entry.path,
        "changed": None if failed else done.changed,
        "mended": None if failed else done.mended,
        "sources": [] if failed else list(done.sources),
        "problem": str(done) if failed else None,
    }
