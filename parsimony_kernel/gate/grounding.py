"""Columns that code takes for granted, against the frames as they are.

Reads syntax and column names, never rows. It speaks only of a frame that is bound now and that
the code has not had a chance to change: when in doubt it says nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parsimony_kernel.analysis.columns import Use, column_uses
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.causes import BAD_ARGUMENTS, COLUMNS_NEAR
from parsimony_kernel.core.fuzzy import is_said, near_columns
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.execution.frames import cell
from parsimony_kernel.gate.frame_columns import Frame, frame_of
from parsimony_kernel.gate.stages import Attempt, Stage

MAX_NAMED = 40
MAX_CHOICES = 8
# The key of a failure's metadata which says that its words list what the notebook holds.
LISTS_COLUMNS = "lists_columns"


def columns_exist(
    variables: Callable[[], Mapping[str, Any]], said: Callable[[], str] = lambda: ""
) -> Stage:
    """Code asks frames only for columns that they have.

    One near name is offered. Several are a question to the person where the name is the person's
    own and none of the columns is; otherwise the model chooses among them. Nothing is ever
    substituted. ``said`` gives the person's own words; without any, several are a question.
    """

    def stage(attempt: Attempt) -> Failure | None:
        code = attempt.inputs.get("code")
        if attempt.action != "run_code" or not isinstance(code, str):
            return None
        bound = variables()
        frames = {
            name: frame
            for name in sorted(read(code).reads)
            if name in bound and (frame := frame_of(bound[name])) is not None
        }
        missing = [
            use
            for use in dict.fromkeys(column_uses(code, frames))
            if not frames[use.frame].has(use.column, or_level=use.or_level)
        ]
        return _refusal(missing, frames, said) if missing else None

    return stage


def _refusal(
    missing: Sequence[Use], frames: Mapping[str, Frame], said: Callable[[], str]
) -> Failure:
    near = {use: near_columns(use.column, frames[use.frame].names()) for use in missing}
    several = [use for use in missing if len(near[use]) > 1]
    words = said() if several else ""
    for use in several:
        if not words.strip() or _is_the_persons(use.column, near[use], words):
            return _question(use, near[use][:MAX_CHOICES])
    meant = {use: _meant(near[use], words) for use in missing}
    details = [
        _detail(use, near[use], meant[use], frames[use.frame]) for use in missing[:MAX_CHOICES]
    ]
    parts = [
        f"`{use.frame}` has no column {cell(use.column)!r}" + _hint(near[use], meant[use])
        for use in missing[:MAX_CHOICES]
    ]
    reason = "; ".join(parts)
    listed = " ".join(
        f"Columns of `{name}`: {_listing(frames[name])}."
        for name in dict.fromkeys(use.frame for use in missing[:MAX_CHOICES])
    )
    envelope: dict[str, Any] = {
        "reason": reason,
        "details": details[0] if len(details) == 1 else details,
    }
    offered = [column for column in meant.values() if column is not None]
    if len(offered) == 1:
        envelope["did_you_mean"] = offered[0]
    return BAD_ARGUMENTS.failure(
        f"{reason}. {listed} Nothing was run.",
        envelope=envelope,
        lists_columns=True,
    )


def _is_the_persons(name: str, near: Sequence[str], words: str) -> bool:
    """Whether the person spoke of ``name``, and of none of the columns that it may stand for."""
    return is_said(name, words) and not any(is_said(each, words) for each in near)


def _meant(near: Sequence[str], words: str) -> str | None:
    """The one column that is near, or the one of several that the person spoke of."""
    spoken = near if len(near) == 1 else [each for each in near if is_said(each, words)]
    return spoken[0] if len(spoken) == 1 else None


def _hint(near: Sequence[str], meant: str | None) -> str:
    if meant is not None:
        return f" (did you mean {meant!r}?)"
    named = ", ".join(repr(each) for each in near[:MAX_CHOICES])
    return f" (choose one of {named})" if near else ""


def _detail(use: Use, near: Sequence[str], meant: str | None, frame: Frame) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "field": "code",
        "frame": use.frame,
        "column": cell(use.column),
        "columns": [cell(each) for each in frame.columns[:MAX_NAMED]],
    }
    if len(near) > 1:
        detail["choices"] = list(near[:MAX_CHOICES])
    return {**detail, "did_you_mean": meant} if meant is not None else detail


def _listing(frame: Frame) -> str:
    shown = ", ".join(repr(cell(each)) for each in frame.columns[:MAX_NAMED])
    more = len(frame.columns) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def _question(use: Use, choices: Sequence[str]) -> Failure:
    question = f"Which column of `{use.frame}` do you mean by {cell(use.column)!r}?"
    reason = f"`{use.frame}` has no column {cell(use.column)!r}, and several come near"
    named = ", ".join(repr(each) for each in choices)
    return COLUMNS_NEAR.failure(
        f"{reason}: {named}",
        question=question,
        choices=list(choices),
        envelope={
            "reason": reason,
            "details": {
                "field": "code",
                "frame": use.frame,
                "column": cell(use.column),
                "question": question,
                "choices": list(choices),
            },
        },
        lists_columns=True,
    )
