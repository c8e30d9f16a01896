"""Columns that code takes for granted, against the frames as they are.

Reads syntax, column names and lengths, never rows. It speaks only of a frame that is bound now
and that the code has not had a chance to change: when in doubt it says nothing.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.analysis.calls import COLUMNS_OR_LEVELS
from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.causes import BAD_ARGUMENTS, COLUMNS_NEAR
from parsimony_kernel.core.fuzzy import is_said, near_columns
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.execution.frames import cell
from parsimony_kernel.gate.stages import Attempt, Stage

MAX_NAMED = 40
MAX_CHOICES = 8
# The key of a failure's metadata which says that its words list what the notebook holds.
LISTS_COLUMNS = "lists_columns"


@dataclass(frozen=True)
class Frame:
    """The column names of a table; ``levels`` are the names of its index, ``rows`` its length."""

    columns: Any
    levels: frozenset[str]
    depth: int
    rows: int
    identity: int

    def names(self) -> list[str]:
        """The names that are text."""
        return list(dict.fromkeys(each for each in self.columns if isinstance(each, str)))


@dataclass(frozen=True)
class Missing:
    """A column that code looks up in the frame bound to ``frame``, which has none of that name."""

    frame: str
    column: str


def frame_of(value: Any) -> Frame | None:
    """The columns of a frame of pandas or polars; ``None`` for anything that is not plainly one."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and type(value) is getattr(pandas, "DataFrame", None):
        # Dates and tuples as labels are looked up by rules of their own.
        if type(value.columns) is not pandas.Index:
            return None
        levels = frozenset(each for each in value.index.names if isinstance(each, str))
        return Frame(value.columns, levels, value.index.nlevels, len(value), id(value))
    if polars is not None and type(value) is getattr(polars, "DataFrame", None):
        return Frame(tuple(value.columns), frozenset(), 1, len(value), id(value))
    return None


def columns_exist(
    variables: Callable[[], Mapping[str, Any]], said: Callable[[], str] = lambda: ""
) -> Stage:
    """A stage that refuses code which asks frames for columns that they don't have.

    One near name is offered. Several are a question to the person where the name is the person's
    own and none of the columns is; otherwise the model chooses among them. Nothing is ever
    substituted.

    Args:
        variables: the live namespace.
        said: the person's own words; without any, several near names are a question.
    """

    def stage(attempt: Attempt) -> Failure | None:
        code = attempt.inputs.get("code")
        if attempt.action != "run_code" or not isinstance(code, str):
            return None
        read_cell, bound = read(code), variables()
        frames = {
            name: frame
            for name in sorted(read_cell.reads)
            if name in bound and (frame := frame_of(bound[name])) is not None
        }
        missing = list(dict.fromkeys(_missing(read_cell, frames))) if frames else []
        return _refusal(missing, frames, said) if missing else None

    return stage


def _missing(cell: Cell, frames: Mapping[str, Frame]) -> Iterator[Missing]:
    for lookup in cell.columns if cell.error is None else ():
        frame = frames.get(lookup.frame)
        if frame is None or _is_doubted(frame, lookup.doubted, frames):
            continue
        # Rows of several levels, and as many labels as rows, have rules of their own.
        if (lookup.method == "loc" and frame.depth > 1) or (
            lookup.method and len(lookup.columns) == frame.rows
        ):
            continue
        known = frame.levels if lookup.method in COLUMNS_OR_LEVELS else ()
        for column in lookup.columns:
            if column not in frame.columns and column not in known:
                yield Missing(lookup.frame, column)


def _is_doubted(frame: Frame, doubted: frozenset[str], frames: Mapping[str, Frame]) -> bool:
    """Whether one of the names for ``frame`` may have changed it by now."""
    parts = (each.partition(".") for each in doubted)
    return any(
        name in frames
        and frames[name].identity == frame.identity
        and (not attribute or attribute not in frame.columns)
        for name, _, attribute in parts
    )


def _refusal(
    missing: Sequence[Missing], frames: Mapping[str, Frame], said: Callable[[], str]
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


def _detail(use: Missing, near: Sequence[str], meant: str | None, frame: Frame) -> dict[str, Any]:
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


def _question(use: Missing, choices: Sequence[str]) -> Failure:
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
