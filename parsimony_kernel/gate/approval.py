"""Approvals: actions that a person must allow before they run (human-in-the-loop).

An approval covers exactly one action: its hash is sealed with the question and compared again when
the action runs. A changed action needs a new approval.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import uuid4

from parsimony_kernel.core.causes import LATE_UNCERTAIN, NOT_APPROVED
from parsimony_kernel.core.choices import APPROVAL
from parsimony_kernel.core.effects import Effects, MemoryEffects, action_sha, is_sensitive
from parsimony_kernel.core.kinds import HELD, Action, Effect, Failure, FailureKind, FailureType
from parsimony_kernel.core.reach import ACTING, Reach, ReachKind
from parsimony_kernel.execution.run_scope import Permit
from parsimony_kernel.gate.stages import Attempt
from parsimony_kernel.gate.writes import asked, inputs_of
from parsimony_kernel.lineage.file_backups import Files
from parsimony_kernel.tools import Tool, ToolResult


class Approval(StrEnum):
    """Approval mode: ``auto`` never asks, ``guarded`` asks before an action reaches outside the
    notebook, ``ask`` asks before every action.

    ``ask`` skips only tools that declare no effect and tools that end or suspend the run. Deleting
    the person's variables needs approval in every mode.
    """

    auto = "auto"
    guarded = "guarded"
    ask = "ask"


# The reason of a question about an action that doesn't reach outside.
EVERY_STEP = "every step needs your approval"

# Name under which code that reaches outside is recorded in the effects.
_CODE = "code"


@dataclass
class Granted:
    """Approvals given in one run.

    Attributes:
        targets: approved targets, by kind and name.
        previewed: approved side effects of previewed code, by the code.
        made: paths that the run created.
        files: keeps the earlier content of files that the run writes to.
        widened: hash of the action that was approved together with all similar ones.
        alike: those similar ones: kinds with a host, program or folder; tools; plain steps.
    """

    targets: set[tuple[ReachKind, str]] = field(default_factory=set)
    previewed: dict[str, tuple[Reach, ...]] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    files: Files | None = None
    widened: str = ""
    alike: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class Approving:
    """Approval policy of one run.

    Code that reaches outside, writes, and calls that declare side effects wait for approval. So
    does a function with a sensitive name that doesn't declare its effect. A recorded write is not
    run again, so it needs no approval.

    Args:
        mode: when to ask.
        reaches: returns the side effects of a cell outside the notebook, by static analysis.
        workspace: the folder that code may write to; ``None`` if no audit hook watches the code,
            so that static analysis is the only check. All but reads then count as ``outside``.
        granted: the approvals given so far.
        effects: the write-ahead log of what left the notebook.
        run_id: the run that asks.
        paused: returns the hash under which paused code may continue.
        refuses: returns a failure if nobody can be asked about an action.
    """

    mode: Approval
    reaches: Callable[[str], Sequence[Reach]]
    workspace: Path | None = None
    granted: Granted = field(default_factory=Granted)
    effects: Effects = field(default_factory=MemoryEffects)
    run_id: str = ""
    paused: Callable[[], str] = str
    refuses: Callable[[Attempt], Failure | None] = lambda attempt: None

    def stage(self, attempt: Attempt) -> Failure | None:
        """Return the question to ask before the action may run, or ``None``."""
        tool, granted = attempt.tool, self.granted
        if attempt.approved and attempt.approved == self.paused():
            return None
        found, own = self._found(attempt)
        attempt.outside.extend(own)
        if self.workspace is None:
            attempt.outside.extend(each.sentence for each in found if each.kind in ACTING)
        known = granted.previewed.get(attempt.code, ())
        new = [each for each in found if each not in known and not self._is_granted(each)]
        is_code = tool.tool_type == "code"
        like = _PLAIN_STEP if is_code else ("tool", tool.name)
        places = tuple(each.sentence for each in new)
        if like not in granted.alike:
            places += (*own, *_of_tool(tool))
        forgets = any(each.kind is ReachKind.forgetting for each in new)
        if attempt.recorded or (self.mode is Approval.auto and not forgets):
            return None
        is_plain = self.mode is not Approval.ask or not _does_something(tool)
        if not places and (is_plain or {like, _PLAIN_STEP} & granted.alike):
            return None
        sha = _sha(attempt, places)
        if attempt.approved != sha:
            return self.refuses(attempt) or _ask(attempt, places, sha)
        granted.previewed[attempt.code] = (*known, *new)
        if self._is_widened(attempt) and not (is_code and places):
            granted.alike.add(like)
        return None

    def _found(self, attempt: Attempt) -> tuple[Sequence[Reach], Sequence[str]]:
        """Return a call's side effects: those of its code, and sentences from its tool."""
        tool = attempt.tool
        if tool.tool_type == "code":
            return self.reaches(attempt.code), ()
        return (), () if tool.reaches is None else tuple(tool.reaches(attempt.inputs))

    def _is_widened(self, attempt: Attempt) -> bool:
        return attempt.approved is not None and attempt.approved == self.granted.widened

    def _is_granted(self, reach: Reach) -> bool:
        if _alike(reach) in self.granted.alike:
            return True
        alike = ((kind, what.rstrip("./")) for kind, what in self.granted.alike)
        granted = (*self.granted.targets, *(each for each in alike if each[0] != ReachKind.shell))
        return any(kind == reach.kind and what in reach.what for kind, what in granted)

    def permit(self, attempt: Attempt) -> Permit | None:
        """Build the permit for an action's code; ``None`` if no audit hook watches it."""
        tool, granted = attempt.tool, self.granted
        if tool.tool_type != "code" or self.workspace is None:
            return None

        def allows(reach: Reach, lines: frozenset[int]) -> bool:
            if self.mode is Approval.auto or (reach.kind, reach.what) in granted.targets:
                return True
            now = map(_alike, permit.left) if self._is_widened(attempt) else ()
            if _alike(reach) in {*granted.alike, *now}:
                return True
            read = granted.previewed.get(attempt.code, ())
            return any(_covers(each, reach, lines) for each in read)

        leaving, ended = on_record(self.effects, self.run_id, attempt.outside, attempt.repeated)
        permit = Permit(
            self.workspace,
            allows,
            lambda reach: _sha(attempt, (reach.sentence,)),
            attempt.approved,
            leaving,
            ended,
            (lambda path: True) if granted.files is None else granted.files.keep,
            made=granted.made,
        )
        return permit

    def held(self, attempt: Attempt, permit: Permit, result: ToolResult) -> ToolResult:
        """Turn the result of code that was held before a side effect into a question.

        Any other result is returned unchanged.
        """
        reach = permit.held
        self.granted.targets.update((each.kind, each.what) for each in permit.left)
        if self._is_widened(attempt):
            self.granted.alike.update(map(_alike, permit.left))
        data = None if result.failure is None else result.failure.partial_data
        if attempt.repeated:
            result = replace(result, note=" ".join(dict.fromkeys(attempt.repeated)))
        if reach is not None and permit.open_end:
            uncertain = LATE_UNCERTAIN.failure(
                f"{reach.sentence} The same was started before, and its outcome is unknown. It was "
                "not run again",
                partial_data=data,
            )
            return asked(uncertain, attempt.tool, permit.open_end, "Did it happen?")
        if reach is None or permit.why_not or self.refuses(attempt) is not None:
            return result
        found, own = self._found(attempt)
        allowed = self.granted.previewed.get(attempt.code, ())
        new = (each for each in found if each not in allowed and not self._is_granted(each))
        after = (*(each.sentence for each in new), *own)
        places = dict.fromkeys((reach.sentence, *after))
        failure = _ask(attempt, tuple(places), permit.sha(reach))
        return ToolResult.from_failure(replace(failure, partial_data=data))


def cut_off(tool: Tool, result: ToolResult, outside: Sequence[str], key: str) -> ToolResult:
    """Turn the result of code that timed out or lost the state into a question.

    The code reaches ``outside``, so its outcome is unknown. The answer is recorded under ``key``,
    the action's idempotency key.
    """
    failure = result.failure
    if failure is None or failure.effect is Effect.committed:
        return result
    # Code that can't be stopped in time costs the kernel's state.
    is_lost = failure.kind is FailureKind.kernel_invalidated
    if failure.type is not FailureType.TIMEOUT and not is_lost:
        return result
    said = f"{failure.explanation.rstrip('.')}. The code reaches outside: {' '.join(outside)}"
    metadata = {**failure.metadata, "tool_name": tool.name, "effect": Effect.uncertain}
    return asked(replace(failure, explanation=said, metadata=metadata), tool, key)


def on_record(
    effects: Effects, run_id: str, outside: list[str], repeated: list[str]
) -> tuple[Callable[[Reach, str, bool], str], Callable[[], None]]:
    """Return a permit's callbacks ``leaving`` and ``ended``, which log side effects write-ahead.

    Each effect is recorded in ``effects`` before it happens. A sentence for each one that does
    more than read is appended to ``outside``, and to ``repeated`` for each download that began
    before and never ended.
    """
    begun: list[str] = []

    def leaving(reach: Reach, statement: str, reads: bool) -> str:
        what = {"statement": statement, "kind": reach.kind.value, "what": reach.what}
        key = action_sha(_CODE, what, run_id=f"{run_id}:{uuid4().hex}")
        standing = effects.standing(key, _CODE, what)
        if standing is not None and not reads:
            return next(iter(standing.others), key)
        if standing is not None:
            repeated.append(f"{reach.what}: a download that was cut off is run again.")
        effects.intend(key, _CODE, what)
        begun.append(key)
        if not reads:
            outside.append(reach.sentence)
        return ""

    def ended() -> None:
        while begun:
            effects.commit(begun.pop(), None)

    return leaving, ended


# Kinds of side effect that the approval of a previewed kind also covers.
_WITH = {
    ReachKind.installation: {ReachKind.shell, ReachKind.network, ReachKind.outside_write},
    ReachKind.shell: {ReachKind.installation, ReachKind.process},
    ReachKind.outside_write: {ReachKind.runnable},
    ReachKind.network: {ReachKind.secret},
}


def _covers(read: Reach, reach: Reach, lines: frozenset[int]) -> bool:
    is_kind = reach.kind is read.kind or reach.kind in _WITH.get(read.kind, ())
    # A move to where writing needs approval is covered if the target was named.
    is_kind = is_kind and (not _moves_out(reach) or " to " in read.what)
    return is_kind and (read.line in lines or reach.what in read.what)


_PLAIN_STEP = ("step", "")
# A command without anything that chains, redirects or substitutes.
_PLAIN_COMMAND = re.compile(r"[\w./:=@%+, -]+")
# Programs that can run any other: approving the program would approve everything.
_RUNNERS = re.compile(
    r"(?:.*sh|python.*|perl.*|ruby.*|node.*|.*awk|lua.*|php.*|R|Rscript|julia|java|npm|npx|uvx?"
    r"|\W*|source|command|builtin|exec|eval|cmd|powershell|deno|bun|busybox|parallel|setsid"
    r"|ipython.*|pypy.*|octave.*|matlab|pipx|poetry|tox|go|cargo|yarn|pnpm|gdb|vim?|emacs|script"
    r"|flock|stdbuf|ionice|taskset|strace|chroot|fakeroot|unshare|conda|mamba|docker|podman|git|env"
    r"|sudo|doas|su|xargs|find|nohup|nice|time.*|watch|ssh|make)"
)
_BY_FOLDER = frozenset({ReachKind.deletion, ReachKind.outside_write})


def _moves_out(reach: Reach) -> bool:
    return reach.does.startswith("moves files and")


def _is_runner(program: str) -> bool:
    return "=" in program or _RUNNERS.fullmatch(Path(program).name) is not None


def _alike(reach: Reach) -> tuple[str, str]:
    """Return the key of side effects that are approved along with ``reach`` for the turn.

    The key is the same program, or files of the same folder; otherwise exactly this target.
    """
    program, _, _ = reach.what.partition(" ")
    if reach.kind is ReachKind.shell and _PLAIN_COMMAND.fullmatch(reach.what):
        return reach.kind, reach.what if _is_runner(program) else program
    if reach.kind in _BY_FOLDER and not _moves_out(reach):
        moved = reach.what.partition(" to ")[0] if reach.does == "moves files" else reach.what
        return reach.kind, f"{Path(moved).parent}/"
    return reach.kind, reach.what


def _sha(attempt: Attempt, places: Sequence[str]) -> str:
    """Hash the action with its current side effects: a name in it may mean another file later."""
    return action_sha(attempt.action, {**inputs_of(attempt.tool, attempt.inputs), "": places})


def _does_something(tool: Tool) -> bool:
    if tool.tool_type == "code":
        return True
    return tool.effect != "none" and not tool.terminal and tool.tool_type != "termination"


def _of_tool(tool: Tool) -> tuple[str, ...]:
    """Describe the side effect of any call of a tool, by its declaration or its name."""
    says = tool.effect is not None or tool.idempotent
    if tool.tool_type == "code":
        return ()
    if tool.effect == "write":
        reason = " writes outside the notebook"
    elif tool.tool_type == "function" and not says and is_sensitive(tool.name):
        reason = " sounds like a change outside the notebook, and doesn't declare its effect"
    else:
        return ()
    return (tool.name + reason,)


def _ask(attempt: Attempt, places: Sequence[str], sha: str) -> Failure:
    what = "this code" if attempt.tool.tool_type == "code" else attempt.action
    why = " ".join(f"{each.removesuffix('.')}." for each in places) or EVERY_STEP
    details: Any = list(places)
    return NOT_APPROVED.failure(
        f"{why[:1].upper()}{why[1:]}",
        action=Action.ask_user,
        question=f"May {what} run?",
        choices=APPROVAL,
        envelope={"reason": "it waits for the person to allow it", "details": details},
        **{HELD: sha},
    )
