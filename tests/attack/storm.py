"""Processes that are killed while they write into one workspace.

``python -m tests.attack.storm ACT ROUNDS SEED`` prints what it counted as JSON, the seed included.
Children are forked from this process, which has imported everything, and say over a pipe what
their caller was told was done. Whatever was said must be there afterwards; ``AssertionError`` where
it is not.
"""

import asyncio
import importlib
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.artifacts.verify import verify
from parsimony_kernel.core.events import RunCompleted, TextDelta, UserInputRequested
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.identity import ARTIFACT_FOLDER, ArtifactRef
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError, TurnOptions
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import tool
from tests.artifacts.report_cases import origin, publish
from tests.scenarios.loops import gather

Say = Callable[[str], None]
Counts = Counter[str]

# What the children use late, imported before they are forked.
_LATE = ("parsimony_kernel.session.share", "pyarrow.parquet", "parsimony_kernel.agent.agent")


class Child:
    """A forked process that runs ``act`` and says on a pipe what it was told is done."""

    def __init__(self, act: Callable[[Say], None], go: int | None = None) -> None:
        self._heard = b""
        self._reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reader)
            status = 1
            try:
                if go is not None:
                    os.read(go, 1)
                act(lambda word: void(os.write(writer, f"{word}\n".encode())))
                status = 0
            except (SessionError, BrokenPipeError) as exc:
                print(f"Child {os.getpid()} ended with {exc!r}", file=sys.stderr, flush=True)
                status = 2
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        os.close(writer)

    def said(self) -> list[str]:
        """The words so far, or all of them once it has ended."""
        while self._reader >= 0 and select.select([self._reader], [], [], 0)[0]:
            more = os.read(self._reader, 65536)
            if not more:
                os.close(self._reader)
                self._reader = -1
            self._heard += more
        return self._heard.decode().split("\n")[:-1]

    def first_word(self) -> None:
        """Wait until it says something, or has ended."""
        while not self.said() and self._reader >= 0:
            select.select([self._reader], [], [])

    def kill(self) -> bool:
        """Whether it was still at work."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """How it ended."""
        _, status = os.waitpid(self.pid, 0)
        self.said()
        return os.waitstatus_to_exitcode(status)


def void(_: object) -> None:
    """Nothing."""


def journal_in(root: Path) -> Any:
    """The workspace's journal, for a ``with``."""
    return closing(SqliteJournal(root / ".ockham" / "journal.sqlite"))


def check_journal(root: Path) -> None:
    """The chain and the seal hold."""
    with journal_in(root) as journal:
        assert journal.verify() is None, journal.verify()


# -- four writers, and two beside a verify


def write_for_ever(root: Path, run_id: str) -> Callable[[Say], None]:
    """An act that appends entries and says the number of each."""

    def act(say: Say) -> None:
        with journal_in(root) as journal:
            number = 0
            while True:
                journal.append(run_id, TextDelta(content=str(number)))
                say(str(number))
                number += 1

    return act


def writers(root: Path, rounds: int, chance: random.Random) -> Counts:
    """Four write all the time; one of them is killed, and another takes its place."""
    with journal_in(root) as journal:
        journal.append("first", TextDelta(content="."))
    names = (f"w{number}" for number in range(rounds + 4))
    living = {
        name: Child(write_for_ever(root, name)) for _, name in zip(range(4), names, strict=False)
    }
    said: dict[str, list[str]] = {}
    for round_ in range(rounds):
        time.sleep(chance.uniform(0, 0.2))
        name = chance.choice(sorted(living))
        child = living.pop(name)
        assert child.kill()
        said[name] = child.said()
        if round_ % 10 == 0:
            check_journal(root)
        replacement = next(names)
        living[replacement] = Child(write_for_ever(root, replacement))
    for name, child in living.items():
        child.kill()
        said[name] = child.said()
    check_journal(root)
    with journal_in(root) as journal:
        for name, words in said.items():
            there = [event.content for event in journal.events(name)]
            assert there[: len(words)] == words, f"of {name} something is lost"
            assert there == [str(number) for number in range(len(there))]
    return Counter(kills=rounds + 4, acknowledged=sum(map(len, said.values())))


def verifies(root: Path, rounds: int, chance: random.Random) -> Counts:
    """Intact journals are checked beside two that write to them, fifty times each."""
    counts = Counts(verified=rounds, written=0)
    for number, begun in enumerate(range(0, rounds, 50)):
        folder = root / str(number)
        with journal_in(folder) as journal:
            journal.append("first", TextDelta(content="."))
            busy = [Child(write_for_ever(folder, name)) for name in ("a", "b")]
            busy[0].first_word()
            for _ in range(begun, min(begun + 50, rounds)):
                time.sleep(chance.uniform(0, 0.01))
                found = journal.verify()
                assert found is None, f"an intact journal was accused: {found}"
        assert [child.kill() for child in busy] == [True, True]
        counts["written"] += sum(len(child.said()) for child in busy)
    return counts


# -- eight publishers


def publish_for_ever(root: Path, name: str) -> Callable[[Say], None]:
    """An act that publishes another table each time and says its reference."""

    def act(say: Say) -> None:
        publisher = Publisher(ArtifactStore(root), notebook_path=f"{name}.ipynb")
        number = 0
        while True:
            made = origin("sales", f"sales = {number}", notebook_path=f"{name}.ipynb", sources=())
            table = pd.DataFrame({"who": [name] * 50, "n": range(number, number + 50)})
            title = f"Sales {number % 3}"
            done = publish(publisher, "dataset", table, "sales", title=title, lineage=[made])
            say(json.dumps([done.ref.kind, done.ref.logical_id, done.ref.content_sha]))
            number += 1

    return act


def publishers(root: Path, rounds: int, chance: random.Random) -> Counts:
    """Eight publish into one workspace, two in the name of each notebook."""
    living = [Child(publish_for_ever(root, f"n{number % 4}")) for number in range(8)]
    said: list[str] = []
    for _ in range(rounds):
        time.sleep(chance.uniform(0, 0.3))
        slot = chance.randrange(8)
        assert living[slot].kill()
        said += living[slot].said()
        living[slot] = Child(publish_for_ever(root, f"n{slot % 4}"))
    for child in living:
        child.kill()
        said += child.said()
    store = ArtifactStore(root)
    for word in set(said):
        store.read(ArtifactRef(*json.loads(word)))  # which checks its hash
    logs = [
        (log.parent.parent.name.removesuffix("s"), log.parent.name)
        for log in (store.root / ARTIFACT_FOLDER).glob("*s/*/log.jsonl")
    ]
    named = [entry.ref for kind, id_ in logs for entry in store.history(kind, id_)]
    assert {ArtifactRef(*json.loads(word)) for word in said} <= set(named)
    checked = verify(store)
    assert not checked.findings, checked.findings
    return Counter(kills=rounds + 8, acknowledged=len(said), lines=len(named))


# -- questions, answers and what follows


def open_on(root: Path, *steps: Any) -> NotebookSession:
    """A session in a process of its own, with a tool that leaves a line for each letter sent."""
    letters = str(root / "letters")

    @tool(effect="write")
    def send(to: str) -> dict[str, str]:
        """Send a letter."""
        with open(letters, "ab", 0) as out:
            out.write(f"{to}\n".encode())
        return {"sent": to}

    executor = CodeExecutor(cwd=str(root))
    session = NotebookSession(
        executor=executor, notebook="n.ipynb", folder=root, model=ScriptedModel(steps), environ={}
    )
    executor.namespace()["send"] = send
    session.tools.add("send")
    return session


BEGUN = "begun"
ASK = call("ask_user", question="To whom?", choices=["ada", "grace"])
SEND = call("send", to="ada")
DONE = call("return_done", summary="Sent.")


def ask(root: Path) -> Callable[[Say], None]:
    """An act: a turn that asks."""

    def act(say: Say) -> None:
        with closing(open_on(root, ASK)) as session:
            options = TurnOptions(approve=Approval.auto)
            say(BEGUN)
            turn = session.turn("write to somebody", cell_key="c", options=options)
            if isinstance(asyncio.run(gather(turn))[-1], UserInputRequested):
                say("asked")

    return act


def reply(root: Path) -> Callable[[Say], None]:
    """An act: the question is answered, and the turn sends one letter."""

    def act(say: Say) -> None:
        with closing(open_on(root, SEND, DONE)) as session:
            say(BEGUN)
            last = asyncio.run(gather(session.resume("ada")))[-1]
            say("done" if isinstance(last, RunCompleted) else "asked again")

    return act


def ask_later(root: Path) -> Callable[[Say], None]:
    """An act: another cell wants the same letter sent."""

    def act(say: Say) -> None:
        with closing(open_on(root, SEND, DONE)) as session:
            options = TurnOptions(approve=Approval.auto)
            turn = session.turn("and again", cell_key="later", options=options)
            last = asyncio.run(gather(turn))[-1]
            say("asked" if isinstance(last, UserInputRequested) else "done")

    return act


def letters_in(root: Path) -> int:
    """How many letters were sent."""
    path = root / "letters"
    return len(path.read_text().splitlines()) if path.exists() else 0


def effects_in(root: Path) -> list[str]:
    """The states of the effects that are on record."""
    with journal_in(root) as journal:
        return [str(state) for (state,) in journal.select("SELECT state FROM effects")]


def waiting_in(root: Path) -> int:
    """How many questions wait."""
    with closing(open_on(root)) as session:
        return len(session.pending())


def takes(act: Callable[[Say], None]) -> float:
    """The seconds that an act takes from its first word on, when nobody kills it."""
    child = Child(act)
    child.first_word()
    began = time.perf_counter()
    assert child.wait() == 0
    return time.perf_counter() - began


def resumes(root: Path, rounds: int, chance: random.Random) -> Counts:
    """Each kind of process is killed at any moment of its life, until a question is answered."""
    counts = Counts(kills=0)
    whole = root / "whole"
    whole.mkdir()
    asking, replying = takes(ask(whole)), takes(reply(whole))
    assert letters_in(whole) == 1
    place = 0
    while counts["kills"] < rounds:
        place += 1
        folder = root / str(place)
        folder.mkdir()
        one_question(folder, asking, replying, chance, counts)
    counts["questions"] = place
    return counts


def one_question(
    folder: Path, asking: float, replying: float, chance: random.Random, counts: Counts
) -> None:
    """Ask one question, answer it, and look after each kill at what is there."""

    def killed(act: Callable[[Say], None], within_s: float, phase: str) -> list[str]:
        child = Child(act)
        if chance.random() < 0.8:  # the others are killed while they open the workspace
            child.first_word()
        time.sleep(chance.uniform(0, within_s))
        struck = child.kill()
        counts["kills"] += struck
        counts[f"killed in {phase}"] += struck
        check_journal(folder)
        return child.said()

    waits = False
    while not waits:
        asking *= 1.1  # the machine may be busier than it was at first
        said = killed(ask(folder), asking, "asking")
        waits = waiting_in(folder) == 1
        assert waits or "asked" not in said, "a question that was asked is lost"
    done = False
    while not done and waiting_in(folder):
        assert letters_in(folder) == 0, "a question waits again though its letter is sent"
        replying *= 1.1
        done = "done" in killed(reply(folder), replying, "replying")
        assert letters_in(folder) <= 1, "a letter was sent twice"
    assert letters_in(folder) == 1 or not done, "it was told as done, and nothing was sent"
    if done:
        counts["done"] += 1
        return
    before, states = letters_in(folder), effects_in(folder)
    later = Child(ask_later(folder))
    assert later.wait() == 0
    asked = "asked" in later.said()
    # What is known to have happened may be asked for anew; what is not known is asked about.
    assert states in ([], ["committed"]) or asked, f"{states} was simply repeated"
    assert states != [] or before == 0, "it was sent before it was on record"
    counts[f"cut off while {states[0] if states else 'nothing was sent'}"] += 1


def races(root: Path, rounds: int, chance: random.Random) -> Counts:
    """Three processes answer one question at once."""
    counts = Counts(races=rounds)
    for number in range(rounds):
        folder = root / str(number)
        folder.mkdir()
        assert Child(ask(folder)).wait() == 0
        reader, writer = os.pipe()
        racers = [Child(reply(folder), reader) for _ in range(3)]
        time.sleep(chance.uniform(0, 0.02))
        os.write(writer, b"...")
        ended = sorted(child.wait() for child in racers)
        os.close(reader)
        os.close(writer)
        assert ended == [0, 2, 2], ended
        assert sum("done" in child.said() for child in racers) == 1
        assert letters_in(folder) == 1
        check_journal(folder)
    return counts


ACTS = {
    "writers": writers,
    "verifies": verifies,
    "publishers": publishers,
    "resumes": resumes,
    "races": races,
}


@contextmanager
def own_keys() -> Iterator[Path]:
    """A folder to work in, and keys that are nobody's."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["JUPYTER_DATA_DIR"] = str(folder / "data")
        (folder / "root").mkdir()
        yield folder / "root"


def main(act: str, rounds: str, seed: str) -> None:
    """Run one act and print what it counted."""
    for name in _LATE:
        importlib.import_module(name)
    with own_keys() as root:
        counts = ACTS[act](root, int(rounds), random.Random(int(seed)))
    print(json.dumps({"act": act, "seed": int(seed), **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
