"""Recovery: the same faults for four agent loops, judged from outside.

    python -m benchmarks.recovery --environments build/recovery --write

makes an environment for each system where it is missing, runs every row of ``cases.toml`` in each,
as shipped and tuned, and prints the tables of docs/explain/benchmarks.md. With ``--write`` the
outcomes go to results.json beside this file, and the bytes of every loss to docs/explain/recovery.
``--system``, ``--setup`` and ``--case`` choose some. The provider, the register and the verdicts
are in this process (``oracle.py``, ``verdict.py``); the systems are in others (``systems.py``).
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue

from benchmarks.recovery.oracle import RECEIPT, Json, Oracle
from benchmarks.recovery.verdict import Outcome, judge
from benchmarks.recovery.writing import evidence, tables

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EVIDENCE = ROOT / "docs" / "explain" / "recovery"
PINS: dict[str, tuple[str, ...]] = {
    "parsimony": (str(ROOT),),
    "pydantic-ai": ("pydantic-ai-slim[openai]==2.68.0", "openai==3.57.0"),
    "smolagents": ("smolagents[openai]==1.26.0", "openai==3.57.0"),
    "langgraph": (
        "langgraph==1.2.24",
        "langchain==1.5.2",
        "langchain-openai==1.7.4",
        "langgraph-checkpoint-sqlite==3.1.2",
        "openai==3.57.0",
    ),
}
SETUPS = ("as shipped", "tuned")
LIMIT_S = 20.0
WARM_UP: Json = {"name": "", "want": "recover", "limit_s": 300, "is_warm_up": True}
# What a system is told of a row.
_FOR_THE_SYSTEM = ("tool", "model", "needs", "stream", "code")
_YEARS_S = 10 * 365 * 86_400
_KEY = "sk-loopback0123456789abcdef"


def load() -> tuple[list[Json], dict[str, dict[str, str]]]:
    """The cases, and for each need the systems that lack it, with the reason."""
    table = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    return table["case"], table["needs"]


def not_applicable(case: Json, needs: dict[str, dict[str, str]], system: str, setup: str) -> str:
    """Why the row is not run there; nothing if it is."""
    if setup == "as shipped" and "shipped" in case:
        return str(case["shipped"])
    return needs.get(case.get("needs", "limits"), {}).get(system, "")


class Worker:
    """The process of a system, which forks one for each job."""

    def __init__(self, system: str, python: Path, home: Path) -> None:
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PARSIMONY", "OPENAI", "LANG", "PYTEST", "VIRTUAL_ENV"))
        }
        environ |= {"HOME": str(home), "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANG": "C.UTF-8"}
        self._log = (home / "worker.log").open("w")
        self._process = subprocess.Popen(
            [str(python), str(HERE / "systems.py"), system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environ,
        )
        self._lines: Queue[Json] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._lines.get(timeout=300)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def start(self, job: Json) -> list[int]:
        """Begin a job; the processes that do it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return list(self._lines.get(timeout=30)["pids"])

    def finish(self, pids: Iterable[int], limit_s: float) -> bool:
        """Wait for the job; whether it had to be killed."""
        try:
            self._lines.get(timeout=limit_s)
        except Empty:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, 9)
            self._lines.get(timeout=30)
            return True
        return False

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._log.close()


def run_case(
    worker: Worker, case: Json, system: str, setup: str, *, strict: bool = True
) -> Outcome:
    """One row in one system, from an empty folder to the verdict."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place, Oracle(case, strict=strict) as oracle:
        folder = Path(place, "workspace")
        folder.mkdir()
        job: Json = {
            **{
                name: case[name]
                for name in ("tool", "model", "needs", "stream", "code")
                if name in case
            },
            "then": case.get("then", []),
            "setup": setup,
            "folder": str(folder),
            "url": oracle.url,
            "register": oracle.register,
            "receipt": RECEIPT,
            "out": str(Path(place, "out")),
            "printed": str(Path(place, "printed")),
            "environ": {
                "HOME": place,
                "IPYTHONDIR": str(Path(place, "ipython")),
                "OPENAI_BASE_URL": oracle.url,
                "OPENAI_API_KEY": _KEY,
                "JUPYTER_DATA_DIR": str(Path(place, "data")),
            },
        }
        came: list[Json] = []
        is_hung = is_answered = False
        for acts, change, signals in _phases(case.get("then", [])):
            change(job)
            job["is_warm_up"] = "is_warm_up" in case
            Path(job["out"]).unlink(missing_ok=True)
            pids = worker.start({**job, "acts": acts})
            limit_s = float(case.get("limit_s", LIMIT_S))
            for name, event, count in signals:
                if oracle.wait(event, count, limit_s):
                    time.sleep(0.1)
                    for pid in pids:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.Signals[name])
            is_hung = worker.finish(pids, limit_s) or is_hung
            out = Path(job["out"])
            lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
            # The answers of several processes count together, else the last process counts.
            came = [*came, *map(json.loads, lines)] if is_answered else [*map(json.loads, lines)]
            is_answered = "answer" in acts
            if "SIGKILL" in {name for name, _, _ in signals}:
                job["again"] = True
        printed = Path(job["printed"])
        shown = printed.read_text(encoding="utf-8", errors="replace") if printed.exists() else ""
        return judge(case, system, setup, oracle, came, is_hung, shown, time.monotonic() - begun)


Phase = tuple[list[str], Callable[[Json], None], list[tuple[str, str, int]]]


def _phases(then: Sequence[str]) -> Iterator[Phase]:
    """The processes of a run, one after the other: acts, what changes before, signals."""
    acts = ["ask"]
    signals: list[tuple[str, str, int]] = []
    for step in then:
        if step.startswith("SIG"):
            name, _, event, *count = step.split()
            signals.append((name, event, int(count[0]) if count else 1))
        elif step in ("go on", "undo") and not signals:
            acts.append(step.replace(" ", "_"))
    yield acts, _nothing, signals
    change: Callable[[Json], None] = _nothing
    for step in then:
        if step == "go on" and signals:
            yield ["go_on"], _nothing, []
        elif step == "answer":
            yield ["answer"], change, []
        elif step == "answer in two processes":
            yield ["answer"], lambda job: job.update(copies=2), []
        elif step == "answer a hundred times":
            yield ["answer"] * 100, _nothing, []
        elif step in CHANGES:
            change = CHANGES[step]


def _nothing(_job: Json) -> None:
    """Leave the job as it is."""


def _journal(job: Json) -> Path:
    path = Path(job["folder"], ".ockham", "journal.sqlite")
    with sqlite3.connect(path) as journal:
        journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal.close()
    return path


def _torn(job: Json) -> None:
    path = _journal(job)
    os.truncate(path, path.stat().st_size // 2)


def _flipped(job: Json) -> None:
    path = _journal(job)
    data = bytearray(path.read_bytes())
    for at in range(len(data)):
        if data[at : at + 8] == b'"record"':
            data[at + 3] ^= 1
    path.write_bytes(data)


def _replaced(old: str, new: str) -> Callable[[Json], None]:
    """A change that puts ``new`` for ``old`` in every text that the journal keeps."""

    def change(job: Json) -> None:
        path = _journal(job)
        with sqlite3.connect(path) as journal:
            triggers = journal.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (trigger,) in triggers.fetchall():
                journal.execute(f'DROP TRIGGER "{trigger}"')
            names = journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in names.fetchall():
                for column in journal.execute(f'PRAGMA table_info("{table}")').fetchall():
                    journal.execute(
                        f'UPDATE "{table}" SET "{column[1]}" = replace("{column[1]}", ?, ?) '
                        f'WHERE typeof("{column[1]}") = ?',
                        (old, new, "text"),
                    )
        journal.close()

    return change


def _forged_arguments(job: Json) -> None:
    for colon in (": ", ":"):
        for quote in ('"', '\\"'):
            _replaced(f"{quote}n{quote}{colon}1", f"{quote}n{quote}{colon}2")(job)


def _elsewhere(job: Json) -> None:
    there = Path(job["folder"]).with_name("elsewhere")
    shutil.copytree(job["folder"], there)
    job["folder"] = str(there)


CHANGES: dict[str, Callable[[Json], None]] = {
    "torn": _torn,
    "flipped": _flipped,
    "forged": _replaced("Record the number 1", "Record the number 2"),
    "other arguments": _forged_arguments,
    "elsewhere": _elsewhere,
    "ten years later": lambda job: job.update(shift_s=_YEARS_S),
    "ten years earlier": lambda job: job.update(shift_s=-_YEARS_S),
    "another key": lambda job: job["environ"].update(
        JUPYTER_DATA_DIR=job["environ"]["HOME"] + "/another"
    ),
}


def prepare(system: str, folder: Path) -> Path:
    """The interpreter of ``system``'s environment in ``folder``, made where it is missing."""
    python = folder / system / "bin" / "python"
    done = folder / system / "installed"
    if not done.exists():
        print(f"Installing {' '.join(PINS[system])}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder / system], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *PINS[system]]
        subprocess.run(install, check=True)
        done.touch()
    return python


def run_column(system: str, setup: str, python: Path, cases: Sequence[Json]) -> list[Outcome]:
    """Every row in one system with one setup."""
    _, needs = load()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as home:
        worker = Worker(system, python, Path(home))
        run_case(worker, WARM_UP, system, "as shipped")
        for case in cases:
            reason = not_applicable(case, needs, system, setup)
            if reason:
                outcomes.append(Outcome(case["name"], system, setup, "not applicable", reason))
                continue
            outcome = run_case(worker, case, system, setup)
            if outcome.is_loss(case) and "invalid_messages" in outcome.bytes:
                # The strictness of the provider may be all there is to it.
                lenient = run_case(worker, case, system, setup, strict=False)
                outcome.lenient = lenient.verdict
            outcomes.append(outcome)
            print(f"{system}, {setup}: {case['name']}: {outcome.verdict}", file=sys.stderr)
        worker.close()
    return outcomes


def main() -> None:
    """Run what is chosen, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, default=Path("build/recovery"))
    parser.add_argument("--system", action="append", choices=list(PINS), default=[])
    parser.add_argument("--setup", action="append", choices=SETUPS, default=[])
    parser.add_argument("--case", action="append", default=[], help="only the row of this name")
    parser.add_argument("--at-once", type=int, default=3, help="how many columns run at a time")
    parser.add_argument("--write", action="store_true", help="write the results and the bytes")
    given = parser.parse_args()
    cases = [case for case in load()[0] if not given.case or case["name"] in given.case]
    systems = given.system or list(PINS)
    pythons = {system: prepare(system, given.environments.absolute()) for system in systems}
    columns = [(system, setup) for system in systems for setup in given.setup or SETUPS]
    begun = time.monotonic()
    with ThreadPoolExecutor(given.at_once) as pool:
        ran = [pool.submit(run_column, *each, pythons[each[0]], cases) for each in columns]
        outcomes = [outcome for each in ran for outcome in each.result()]
    print(tables(cases, outcomes))
    print(f"\n{len(cases)} rows, {time.monotonic() - begun:.0f} s")
    if given.write:
        lines = ",\n".join(json.dumps(told(outcome)) for outcome in outcomes)
        (HERE / "results.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        for name, text in evidence(cases, outcomes).items():
            EVIDENCE.mkdir(exist_ok=True)
            (EVIDENCE / name).write_text(text, encoding="utf-8")


def told(outcome: Outcome) -> Json:
    """An outcome as results.json has it: without what is elsewhere or right."""
    facts: Json = {name: value for name, value in asdict(outcome).items() if value not in ("", 0)}
    facts.pop("bytes", None)
    if outcome.verdict == "recovered":
        facts.pop("text", None)
    if "text" in facts:
        facts["text"] = facts["text"][:200]
    return facts


if __name__ == "__main__":
    main()
