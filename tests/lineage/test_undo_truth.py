"""Notebooks that are really run: what an undo or a redo says of a name is so."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from looks import look, met

from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.copies import Room
from parsimony_kernel.session.past import Changes

USER = RunScope("", "n.ipynb", "mine", actor="user")
BEGINNING = """
import collections, contextlib, copy, functools, heapq, operator, random
import numpy as np
from heapq import heappush as push
class Box:
    shared = [0]
    def __init__(self, v): self.v = v
    def put(self, x): self.v = x
class Slotted:
    __slots__ = ("v",)
    def __init__(self, v): self.v = v
l1 = [1, 2]
l2 = [[3], [4]]
l3 = l2
d1 = {"k": l1, "in": {"k": [5]}, "n": 1}
d2 = dict(d1)
t1 = (l2, {6})
t2 = t1
n1 = 2
n2 = 7
o1 = Box([1])
o2 = Slotted(o1)
a1 = np.arange(6)
a2 = a1[1:4]
q1 = collections.deque([[1], 2])
q2 = collections.ChainMap(d1, {})
p1 = pd.DataFrame({"a": [1, 2, 3], "o": [[1], [2], [3]]})
p2 = p1.copy()
s1 = p1["a"]
r1 = bytearray(b"ab")
g1 = functools.partial(list.append, l1)
g2 = l2.append
def f1(xs): xs.append(n1)
def f2():
    l1.append(0)
    return d1
"""
STATEMENTS = (
    "{l} = [1, {n}]", "{l} = {l2}", "{l} = list({l2})", "{l}.append({n})", "{l} += [[3]]",
    "{l}[0] = {n}", "{l}, {l2} = {l2}, {l}", "{l}[-1].append({n})", "{l} = {d}['k']",
    "{d}['k'].append(5)", "{d}['in']['k'].append({n})", "{d}['n'] = {n}", "{d} = dict({d2})",
    "{d} = {d2}", "{d}.update(z={l})", "{d} = {{'k': {l}, 'in': {d2}}}", "{d} = copy.copy({d2})",
    "del {l}", "del {d}", "{n} += 1", "{n} = {n2} * 2", "{t}[0].append({n})", "{t} = ({l}, {d})",
    "{t} = {t2}", "{t}[1].add(9)", "o1 = Box({l})", "o1.v = {n}", "o1.v.append({n})",
    "o2.v = {l}", "o2.v.put({n})", "o2.v.v = {n}", "Box.shared.append({n})", "o1.shared = {l}",
    "[each.append(4) for each in ({l}, {l2})]", "{{id(each): each.append(4) for each in ({l},)}}",
    "all(each.append(4) is None for each in [{l}, {l2}])", "list(each.clear() for each in ({d},))",
    "(lambda xs: xs.append(4))({l})", "list(map(lambda xs: xs.append(4), ({l}, {l2})))",
    "list(map(list.clear, [{l}, {l2}]))", "list(map({l}.append, [1, 2]))",
    "list(filter({l}.append, list({l2})))", "[*filter(lambda each: each.pop(), ({l}, {l2}))]",
    "(some := {l}).append(4)", "[(some := each).append(4) for each in ({l}, {l2})]",
    "with contextlib.nullcontext({l}) as xs:\n    xs.append(4)",
    "with contextlib.nullcontext({d}) as {d2}['with']:\n    pass",
    "match {d}:\n    case {{'k': xs}}:\n        xs.append(4)",
    "match {t}:\n    case (xs, *rest):\n        xs.append(4); rest[0].clear()",
    "first, *rest = {l}, {l2}, {d}\nrest[0].append(4); rest[1].clear()",
    "for {l}[0] in (7, 8): pass", "[0 for {l}[0] in (7, 8)]", "for each in {l}:\n    {n} += 1",
    "for each in ({l}, {l2}):\n    each.append(8)",
    "for _, each in {d}.items():\n    if isinstance(each, list): each.append(8)",
    "[each.append(8) for _, each in {d}.items() if isinstance(each, list)]",
    "def f3(xs, *others, key={l}):\n    key.append(1)\n    for each in others: each.append(2)\n"
    "f3(1, {l2})",
    "def f3(xs={l}):\n    def inner(ys=xs): ys.append(1)\n    return inner\nf3()()",
    "f1({l})", "{d} = f2()", "f2()['n'] = 4", "g1({n})", "g2({n})", "g1 = {l}.append", "g2 = f2",
    "g2 = functools.partial(f1, {l})", "push({l}, 0)", "heapq.heapify({l})", "{l} += {l2}",
    "operator.methodcaller('append', 5)({l})", "getattr({l}, 'append')(5)", "list.append({l}, 5)",
    "dict.update({d}, u=1)", "({l} or {l2}).append(3)", "{d}.get('k').append(3)",
    "{d}.setdefault('s', []).append({l})", "{d} |= {{'or': {l}}}", "{l} *= 2", "{l}.sort(key=str)",
    "functools.reduce(lambda xs, n: xs.append(n) or xs, [1, 2], {l})",
    "[f1, print][0]({l})", "{{'f': list.clear}}['f']({l})", "max({l}, {l2}, key=len).append(0)",
    "next(iter({d}.values())).append(1)", "sorted(({l}, {l2}), key=len)[0].append(1)",
    "copy.copy({d})['in'].clear()", "copy.deepcopy({d})['in'].clear()",
    "dict({d})['k'].append(2)", "[{l}][0].append(2)",
    "vars(o1)['v'] = {n}", "setattr(o1, 'w', {l})",
    "o1.__dict__.update(v={n})", "a1[0] = {n}", "a2[:] = {n}", "a2 = a1[2:]", "a1 = a2", "a1 += 1",
    "np.add(a1, 1, out=a1)", "np.add(a1, 1, a1)", "a1.sort()", "a1.T[0] = 5", "a1.flat[1] = 6",
    "[each.fill(3) for each in (a1, a2)]", "q1.append({n})", "q1[0].append({l})", "q1.rotate()",
    "q2['new'] = {n}", "q2['k'].append(6)", "q2 = collections.ChainMap({d})",
    "r1[0] = 0", "p1.columns = [*'xy'][:len(p1.columns)]", "p1._update_inplace(p1.iloc[:1])",
    "p1['b'] = {n}", "p2.loc[0, 'a'] = {n}", "p1['o'][0].append({n})", "p2 = p1", "p1 = p2.copy()",
    "s1.iloc[0] = {n}", "s1 = p1['o']", "p1.at[1, 'o'].append({n})", "p2['o'] = p1['o']",
    "p1['o'].map(lambda xs: xs.append(5))", "p2['o'].apply(list.clear)", "del p1",
    "[row['o'].append(6) for _, row in p1.iterrows()]",
    "p1.insert(0, 'i', {n}) if 'i' not in p1 else 0",
    "exec('{l}.append(5)')", "globals()['{l}'].append(5)", "print({l})", "{d}", "1 / 0",
    "class Box:\n    def __init__(self, v): self.v = v; v.append(1)\no1 = Box({l})",
    "it = iter({l2})", "it = (each.append(1) for each in ({l}, {l2}))", "list(it)",
    "try:\n    {l}.append(1 / 0)\nexcept ZeroDivisionError as error:\n    {l}.append(2)",
    "x, {l}[0] = 1, 2", "del {l}[0]", "del o1.v", "*{l}[0:1], x = 1, 2, 3",
    "random.shuffle({l})", "import random as r\nr.shuffle({l})",
    "from random import shuffle as mix\nmix({l})",
    "import __main__\n__main__.{l}.append(1)", "async def f4(xs): xs.append(1)\nf4({l}).send(None)",
)  # fmt: skip
POOL = {"l": ("l1", "l2", "l3"), "n": ("n1", "n2"), "d": ("d1", "d2"), "t": ("t1", "t2")}


@st.composite
def statements(draw: st.DrawFn) -> str:
    words = {kind: draw(st.sampled_from(names)) for kind, names in POOL.items()}
    others = {f"{kind}2": draw(st.sampled_from(names)) for kind, names in POOL.items()}
    return draw(st.sampled_from(STATEMENTS)).format(**words, **others)


CELLS = st.lists(statements(), min_size=1, max_size=3).map("\n".join)
TURNS = st.lists(CELLS, min_size=1, max_size=3)


class Photo:
    """What names held at one time, and what the objects looked like, those of ``before`` too."""

    def __init__(self, bindings: Mapping[str, Any], before: "Photo | None" = None) -> None:
        self._holds = {name: set(map(id, met([value]))) for name, value in bindings.items()}
        # Kept alive, so that no other object has the identity of one.
        self._objects: list[Any] = met([*bindings.values(), *(before._objects if before else ())])
        self._looks = {id(each): look(each) for each in self._objects}
        self._inside = {id(each): set(map(id, met([each]))) for each in self._objects}

    def differing(self) -> set[int]:
        """The objects that look otherwise by now."""
        return {id(each) for each in self._objects if look(each) != self._looks[id(each)]}

    def holding(self, objects: set[int]) -> set[str]:
        return {name for name, held in self._holds.items() if held & objects}

    def without(self, objects: set[int]) -> dict[int, Any]:
        """What those looked like that held none of ``objects``."""
        return {key: look for key, look in self._looks.items() if not self._inside[key] & objects}


@dataclass
class Notebook:
    executor: CodeExecutor = field(default_factory=CodeExecutor)
    changes: Changes = field(default_factory=Changes)
    ran: list[str] = field(default_factory=list)

    def values(self) -> dict[str, Any]:
        """What is bound, methods among it; an import alone is no change."""
        bound = self.executor._bindings()
        return {name: value for name, value in bound.items() if type(value) is not ModuleType}

    def look(self) -> dict[str, tuple[Any, int]]:
        version = self.executor.origin_ledger.version
        return {name: (look(value), version(name)) for name, value in self.values().items()}

    async def run(self, code: str, scope: RunScope = USER) -> None:
        self.ran.append(("# mine\n" if scope is USER else "# agent\n") + code)
        with run_scope(scope):
            await self.executor.execute(code)

    async def turn(self, steps: list[str], room: Room | None) -> bool:
        checkpoints = self.executor.checkpoints()
        checkpoints.take()
        if room is not None:
            checkpoints._room = room
        for number, code in enumerate(steps):
            if number:
                checkpoints.take()
            await self.run(code, RunScope("t", "n.ipynb", "t"))
        change = checkpoints.close()
        if change is not None:
            self.changes.add("t", change)
        return change is not None

    def held(self, *times: dict[str, Any]) -> list[dict[str, Any]]:
        """What the objects hold now that names were bound to at some times."""
        return [{name: look(value) for name, value in each.items()} for each in times]

    def is_so(
        self,
        back: PutBack,
        goal: dict[str, Any],
        now: dict[str, Any],
        theirs: set[str],
        *,
        later: bool,
        aliases: Mapping[str, Any],
        photo: Mapping[int, Any],
    ) -> None:
        """``goal`` is what there was at the time that was gone back to, ``now`` what there was
        just before, which is what there must still be where nothing is told; without ``later``
        cells that is the same for what is not told. Of ``theirs`` a person changed parts that the
        turn had not changed. ``aliases`` are names that a person bound since, with what to: they
        see what the turn had changed and nobody since as it is put back, which is told. ``photo``
        is what the objects that no person changed looked like at that time, by id."""
        found = self.look()
        whole = "\n".join(self.ran)
        for name in {*found, *goal, *now} - set(back.lost):
            if name in theirs and name in back.restored:
                continue
            if name in aliases and name in back.restored:
                value = self.values()[name]
                pairs = [(id(each), each) for each in met([value])]
                for key, each in [(id(aliases[name]), value), *pairs]:
                    seen = look(each)
                    assert seen == photo.get(key, seen), (
                        f"in {name}: {seen}, not {photo[key]}\n{back}\n{whole}"
                    )
                continue
            is_told = name in back.restored or name in back.removed
            wanted = [goal] if is_told or not later else [now]
            if later and name not in back.kept and not is_told and name in goal and name in now:
                wanted.append({name: (now[name][0], goal[name][1])})
            assert found.get(name) in [each.get(name) for each in wanted], (
                f"{name}: {found.get(name)}, not {wanted[0].get(name)}\n{back}\n{whole}"
            )


def contents(look: dict[str, tuple[Any, int]]) -> dict[str, Any]:
    return {name: value for name, (value, _) in look.items()}


async def play(turn: list[str], later: list[str], room: Room | None = None) -> Notebook:
    book = Notebook()
    await book.run(BEGINNING)
    before = book.look()
    objects = book.values()
    began = Photo(objects)
    if not await book.turn(turn, room):
        assert contents(book.look()) == contents(before), "\n".join(book.ran)
        return book
    after = book.look()
    both = (objects, book.values())
    ended = book.held(*both)
    end = Photo(both[1], began)
    for code in later:
        await book.run(code)
    now = book.look()
    theirs = {
        name
        for was, each in zip(ended, book.held(*both), strict=True)
        for name in each
        if each[name] != was[name]
    }
    aliases = {
        name: value
        for name, value in book.values().items()
        if name not in both[1] or value is not both[1][name]
    }
    touched = end.differing()
    theirs |= began.holding(touched) | end.holding(touched)
    earlier, ending = began.without(touched), end.without(touched)
    back = book.changes.undo("t", book.executor)
    book.ran.append("# undone")
    book.is_so(back, before, now, theirs, later=bool(later), aliases=aliases, photo=earlier)
    if not later:
        assert not back.kept
    undone = book.look()
    if "t" in book.changes.runs(undone=True):
        # What a person's cell has written again as it was is of the version of that cell.
        written = {name for name in after if name in now and now[name][0] == after[name][0]}
        after = {name: now[name] if name in written else look for name, look in after.items()}
        again = book.changes.undo("t", book.executor, redo=True)
        book.ran.append("# done again")
        is_later = bool(later or back.lost or back.kept)
        book.is_so(again, after, undone, theirs, later=is_later, aliases=aliases, photo=ending)
        if not later:
            assert not again.kept
        redone = book.look()
        if "t" in book.changes.runs():
            back = book.changes.undo("t", book.executor)
            is_later = bool(later or back.lost or back.kept)
            book.is_so(back, undone, redone, theirs, later=is_later, aliases=aliases, photo=earlier)
    return book


QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:The inplace keyword")
BOUNDED = settings(max_examples=settings().max_examples // 4)


@QUIET
@BOUNDED
@given(TURNS)
@example(["[each.append(4) for each in (l1, l2)]\nl1 = d1['k']"])
@example(["d2['in']['k'].append(5)"])
@example(["g1(n1)"])
@example(["a1 += 1", "[each.fill(3) for each in (a1, a2)]"])
def test_reported_names_are_exact_after_undo_and_redo(turn: list[str]) -> None:
    asyncio.run(play(turn, []))


@QUIET
@BOUNDED
@given(TURNS, st.lists(CELLS, min_size=1, max_size=2))
@example(["d2.update(z=1)"], ["d1 = d2"])
@example(["class Bag:\n    def __init__(self, v): v.append(1)\no1 = Bag(l2)"], ["g1 = l2.append"])
@example(["l1.append(5)"], ["l3 = l1", "l3.append(7)"])
@example(["q2['new'] = n1"], ["q2['new'] = n1"])
def test_users_later_changes_stay_and_report_is_true(turn: list[str], later: list[str]) -> None:
    asyncio.run(play(turn, later))


@QUIET
@BOUNDED
@given(TURNS, st.integers(0, 1_500), st.integers(0, 4_000))
@example(["l1.append(5)\nd1['k'].append(6)", "d2['in']['k'].append(5)"], 0, 0)
def test_uncopied_value_is_reported_lost(turn: list[str], size: int, effort: int) -> None:
    asyncio.run(play(turn, [], Room(size, effort)))


async def go_back(steps: list[str], hop: int) -> None:
    book, states = Notebook(), []
    await book.run(BEGINNING)
    checkpoints = book.executor.checkpoints()
    for code in steps:
        states.append((checkpoints.take(), book.look()))
        await book.run(code, RunScope("t", "n.ipynb", "t"))
    for number, before in states[-hop::-hop]:
        back, whole = checkpoints.put_back(number), "\n".join(book.ran)
        now = book.look()
        for name in {*now, *before} - set(back.lost):
            assert now.get(name) == before.get(name), f"{name}\n{back}\n{whole}"


@QUIET
@BOUNDED
@given(st.lists(CELLS, min_size=1, max_size=5), st.integers(1, 3))
@example(["l1.append(5)", "r1[0] = 0"], 2)
@example(["n1 += 1", "np.add(a1, 1, out=a1)", "a2[0] = 9"], 1)
@example(["it = iter(l1)", "l1 = [1, n1]\na1 += 1", "exec('l1.append(5)')"], 1)
def test_any_sequence_restores_to_any_checkpoint(steps: list[str], hop: int) -> None:
    asyncio.run(go_back(steps, hop))
