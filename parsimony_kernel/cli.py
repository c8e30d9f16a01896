"""``jupyter parsimony``: what is done with the agent outside a notebook.

Arguments and exit codes only; the work is in the modules that each command names. 0 is done, 1 is
could not, 2 is misuse.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from parsimony_kernel import __version__

_EXAMPLES = """\
examples:
  jupyter parsimony demo                       run the quickstart notebook
  jupyter parsimony resume                     list the questions that wait in this folder
  jupyter parsimony resume 2                   answer with the second choice
  jupyter parsimony resume -- -1 or less       answer with words that begin with a dash
  jupyter parsimony install --user             make the kernel known for this user
  jupyter parsimony doctor                     look at what a run needs
  jupyter parsimony verify                     check the journal and all that is published
  jupyter parsimony refresh "Monthly mean"     make an artifact again from its code and sources
  jupyter parsimony metrics                    show how the recent turns went
  jupyter parsimony keys list                  show the keys that sign waiting questions
  jupyter parsimony keys rotate                sign with a new key from now on
"""

_KEYS_EXAMPLES = """\
examples:
  jupyter parsimony keys list --json           the keys and their states, for a program
  jupyter parsimony keys rotate                once in a while, or when people change
  jupyter parsimony keys revoke 0123456789abcdef
                                               when somebody else may have read that key
"""


class _OutputLost(Exception):
    """What a command says could not be written. ``str()`` is one sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        code = 1
    except _OutputLost as problem:
        # What is still in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _fail(problem)
    return code


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as problem:
        raise _OutputLost(
            f"The command was carried out, but its output cannot be written: {problem.strerror}."
        ) from problem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyter parsimony",
        description="Parsimony Agent outside the notebook.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str, run: object, says: str, example: str, *, below: Any = commands
    ) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = below.add_parser(
            name,
            help=says,
            description=says[:1].upper() + says[1:] + ".",
            epilog=f"example:\n  jupyter parsimony {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run)
        return command

    demo = add("demo", _demo, "run an agent notebook with the offline model", "demo --out /tmp/out")
    demo.add_argument(
        "notebook", nargs="?", type=Path, help="default: notebooks/01_quickstart.ipynb"
    )
    demo.add_argument("--out", type=Path, help="where the executed notebook goes")

    resume = add(
        "resume", _resume, "list waiting questions, or answer one", "resume --turn 3f2a temp_max"
    )
    resume.add_argument("answer", nargs="*", help="a choice's number, or words; nothing lists")
    resume.add_argument(
        "--wait",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for a busy kernel",
    )
    resume.add_argument("--turn", help="the beginning of the turn's id")
    resume.add_argument("--folder", type=Path, default=Path(), help="the notebook's folder")

    install = add(
        "install", _install, "make the kernel known to Jupyter", "install --user --name my-agent"
    )
    _add_place(install, default="--sys-prefix")
    install.add_argument("--name", help="the kernel's name")
    install.add_argument("--display-name", help="what front ends show")

    uninstall = add(
        "uninstall", _uninstall, "take the kernel away from Jupyter", "uninstall --name my-agent"
    )
    _add_place(uninstall, default="where Jupyter finds it")
    uninstall.add_argument("--name", help="the kernel's name")

    doctor = add("doctor", _doctor, "look at what a run needs", "doctor --folder notebooks")
    doctor.add_argument("--folder", type=Path, default=Path(), help="the notebooks' folder")

    verify = add(
        "verify",
        _verify,
        "check that the journal and everything published are as they were written",
        "verify --folder work",
    )
    verify.add_argument("--folder", type=Path, default=Path(), help="the notebooks' folder")
    verify.add_argument(
        "--leave",
        action="store_true",
        help="leave broken snapshots where they are, instead of moving them to .ockham/quarantine",
    )

    refresh = add(
        "refresh",
        _refresh,
        "make published artifacts again from their code and sources, in clean kernels",
        'refresh "Monthly mean" --accept',
    )
    refresh.add_argument(
        "name", nargs="*", help="a title, variable or id; nothing means all datasets and charts"
    )
    refresh.add_argument(
        "--accept",
        action="store_true",
        help="publish what comes out although it is another; without it that is a failure",
    )
    refresh.add_argument("--folder", type=Path, default=Path(), help="the notebooks' folder")

    metrics = add("metrics", _metrics, "show how the recent turns went", "metrics --json")
    metrics.add_argument("--folder", type=Path, default=Path(), help="the notebooks' folder")
    form = metrics.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as a JSON object")
    form.add_argument("--prometheus", action="store_true", help="as text for Prometheus")

    keys = commands.add_parser(
        "keys",
        help="list, rotate or revoke the keys that sign waiting questions",
        description="The keys that sign questions which wait for an answer. No secret is shown.",
        epilog=_KEYS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).add_subparsers(metavar="ACTION", required=True)
    listed = add("list", _keys_list, "list the keys, the newest first", "keys list", below=keys)
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    add(
        "rotate",
        _keys_rotate,
        "sign with a new key; questions of the old one are answered for 7 more days",
        "keys rotate",
        below=keys,
    )
    revoke = add(
        "revoke",
        _keys_revoke,
        "destroy a key now; questions that it signed can never be answered",
        "keys revoke 0123456789abcdef",
        below=keys,
    )
    revoke.add_argument("key_id", metavar="KEY_ID", help="as the list shows it")
    return parser


def _add_place(command: argparse.ArgumentParser, *, default: str) -> None:
    where = command.add_argument_group(f"where (default: {default})").add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user")
    where.add_argument("--sys-prefix", action="store_true", help="for this environment")
    where.add_argument("--prefix", help="below this installation prefix")


def _seconds(text: str) -> float:
    """A finite number of seconds that is not negative; ``ValueError`` is misuse to argparse."""
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


def _fail(problem: Exception) -> int:
    print(str(problem), file=sys.stderr)
    return 1


def _demo(arguments: argparse.Namespace) -> int:
    from parsimony_kernel import demo

    try:
        demo.run(arguments.notebook or demo.QUICKSTART, arguments.out)
    except demo.DemoError as problem:
        return _fail(problem)
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    from parsimony_kernel import resume
    from parsimony_kernel.journal.database import JournalError
    from parsimony_kernel.notebook.turns import SessionError

    folder = arguments.folder.resolve()
    answer = " ".join(arguments.answer)
    try:
        rows = resume.questions(folder)
        if not answer:
            _say(resume.listing(rows))
            return 0
        row = resume.choose(rows, arguments.turn)
        went_on = resume.in_kernel(row, answer, print, wait_s=arguments.wait)
        if went_on is None:
            print("The notebook's kernel is gone; the run goes on here, without its variables.")
            went_on = asyncio.run(resume.in_this_process(row, answer, folder, print))
    except (SessionError, JournalError) as problem:
        return _fail(problem)
    return 0 if went_on else 1


def _install(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.kernel import install

    in_environment = not arguments.user and arguments.prefix is None
    try:
        placed = install.install(
            user=arguments.user,
            prefix=sys.prefix if in_environment else arguments.prefix,
            name=arguments.name or install.NAME,
            display_name=arguments.display_name or install.DISPLAY_NAME,
        )
    except install.InstallError as problem:
        return _fail(problem)
    _say(f"Installed in {placed}")
    return 0


def _uninstall(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.kernel import install

    try:
        removed = install.uninstall(
            arguments.name or install.NAME,
            user=arguments.user,
            prefix=sys.prefix if arguments.sys_prefix else arguments.prefix,
        )
    except install.InstallError as problem:
        return _fail(problem)
    _say(f"Removed {removed}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.audit import first_bad_entry, report_of
    from parsimony_kernel.durable import StorageError
    from parsimony_kernel.journal.database import JournalError
    from parsimony_kernel.upkeep import store_of, verify_in

    folder = arguments.folder.resolve()
    try:
        has_artifacts = store_of(folder).folder.is_dir()
        bad = first_bad_entry(folder, required=not has_artifacts)
        found = verify_in(folder, quarantine=not arguments.leave)
    except (JournalError, StorageError) as problem:
        return _fail(problem)
    is_well = bad is None and found.ok
    for line in report_of(bad, found):
        print(line, file=sys.stdout if is_well else sys.stderr)
    return 0 if is_well else 1


def _refresh(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.artifacts.refresh import in_words
    from parsimony_kernel.upkeep import refresh_in

    async def run() -> int:
        code = 0
        found = refresh_in(arguments.folder.resolve(), arguments.name, accept=arguments.accept)
        async for name, done in found:
            if isinstance(done, Exception):
                print(f"{name}: {done}", file=sys.stderr)
                code = 1
            else:
                _say(in_words(done))
        return code

    return asyncio.run(run())


def _metrics(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.audit import RECENT_TURNS, figures_of, journal_of
    from parsimony_kernel.journal.database import JournalError
    from parsimony_kernel.metrics import alerts, figures, prometheus

    try:
        with journal_of(arguments.folder.resolve()) as journal:
            if arguments.prometheus:
                recent = journal.turns()[-RECENT_TURNS:]
                counters = prometheus.of_runs(journal.events(turn.run_id) for turn in recent)
                print(counters.exposition(), end="")
                return 0
            counted = figures_of(journal)
    except JournalError as problem:
        return _fail(problem)
    if arguments.json:
        print(json.dumps(figures.to_json(counted)))
        return 0
    print(figures.to_text(counted))
    if fired := alerts.fired(counted):
        print(f"\n{alerts.to_text(fired)}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.doctor import examine

    findings = examine(arguments.folder.resolve())
    for finding in findings:
        _say(f"{'ok ' if finding.ok else 'NOT'}  {finding.name}: {finding.says}")
    return 0 if all(finding.ok for finding in findings) else 1


def _keys_list(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.agent.failure.keyring import Keyring, KeyringError

    try:
        keyring = Keyring.open()
        keys = keyring.keys()
        if arguments.json:
            _say(json.dumps([asdict(key) for key in keys], default=datetime.isoformat, indent=2))
        elif not keys:
            _say("There is no key yet; the first question makes one.")
        else:
            lines = [f"{'key':16}  {'state':11}  {'created':10}  signed until"]
            for key in keys:
                made, until = _day(key.created_at), _day(key.retired_at)
                lines.append(f"{key.key_id or '?':16}  {key.state:11}  {made:10}  {until}")
            _say("\n".join(lines))
        keyring.check()
    except KeyringError as problem:
        return _fail(problem)
    return 0


def _keys_rotate(_arguments: argparse.Namespace) -> int:
    from parsimony_kernel.agent.failure.keyring import GRACE_S, Keyring, KeyringError

    try:
        key = Keyring.open().rotate()
    except KeyringError as problem:
        return _fail(problem)
    _say(
        f"Questions are signed with {key.key_id} from now on. Those that the key before it signed "
        f"can be answered for {GRACE_S / 86_400:g} more days."
    )
    return 0


def _keys_revoke(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.agent.failure.keyring import Keyring, KeyringError

    try:
        Keyring.open().revoke(arguments.key_id)
    except KeyringError as problem:
        return _fail(problem)
    _say(
        f"The secret of {arguments.key_id} is destroyed. Questions that it signed cannot be "
        "answered any more: run their cells again. New questions are signed with another key."
    )
    return 0


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"


if __name__ == "__main__":
    sys.exit(main())
