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
        named = {name: frame_of(bound.get(name)) for name in sorted(read_cell.reads)}
        frames = {name: frame for name, frame in named.items() if frame is not None}
        missing = dict.fromkeys(_missing(read_cell, frames)) if frames else ()
        return _refusal([*missing][:MAX_CHOICES], frames, said()) if missing else None

    return stage


def _missing(cell: Cell, frames: Mapping[str, Frame]) -> Iterator[tuple[str, str]]:
    """The frames, by name, and the columns that code looks up in them and that they don't have."""
    for lookup in cell.columns if cell.error is None else ():
        frame = frames.get(lookup.frame)
        if frame is None or _is_doubted(frame, lookup.doubted, frames):
            continue
        # Rows of several levels, and as many labels as rows, have rules of their own.
        if lookup.method == "loc" and frame.depth > 1:
            continue
        if lookup.method and len(lookup.columns) == frame.rows:
            continue
        known = frame.levels if lookup.method in COLUMNS_OR_LEVELS else ()
        for column in lookup.columns:
            if column not in frame.columns and column not in known:
                yield lookup.frame, column


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
    missing: Sequence[tuple[str, str]], frames: Mapping[str, Frame], words: str
) -> Failure:
    told, reasons, listed = list[dict[str, Any]](), list[str](), dict[str, str]()
    for name, missed in missing:
        frame, column = frames[name], cell(missed)
        near = near_columns(missed, frame.names())
        meant = [each for each in near if is_said(each, words)] if len(near) > 1 else near
        # Whether the person spoke of the name, and of none of the columns that it may stand for.
        is_theirs = is_said(missed, words) and not meant
        if len(near) > 1 and (is_theirs or not words.strip()):
            return _question(name, column, near[:MAX_CHOICES])
        shown = [cell(each) for each in frame.columns[:MAX_NAMED]]
        more = len(frame.columns) - len(shown)
        and_more = f" and {more} more" if more else ""
        listed[name] = f"Columns of `{name}`: {', '.join(map(repr, shown)) or 'none'}{and_more}."
        detail = {"field": "code", "frame": name, "column": column, "columns": shown}
        hint = ""
        if len(near) > 1:
            detail["choices"] = choices = near[:MAX_CHOICES]
            hint = f" (choose one of {', '.join(map(repr, choices))})"
        if len(meant) == 1:
            detail["did_you_mean"] = meant[0]
            hint = f" (did you mean {meant[0]!r}?)"
        told.append(detail)
        reasons.append(f"`{name}` has no column {column!r}{hint}")
    reason = "; ".join(reasons)
    envelope: dict[str, Any] = {"reason": reason, "details": told[0] if len(told) == 1 else told}
    offered = [each["did_you_mean"] for each in told if "did_you_mean" in each]
    if len(offered) == 1:
        envelope["did_you_mean"] = offered[0]
    return BAD_ARGUMENTS.failure(
        f"{reason}. {' '.join(listed.values())} Nothing was run.",
        envelope=envelope,
        lists_columns=True,
    )


def _question(name: str, column: str, choices: list[str]) -> Failure:
    reason = f"`{name}` has no column {column!r}, and several come near"
    question = f"Which column of `{name}` do you mean by {column!r}?"
    told: dict[str, Any] = {"question": question, "choices": choices}
    details = {"field": "code", "frame": name, "column": column, **told}
    return COLUMNS_NEAR.failure(
        f"{reason}: {', '.join(map(repr, choices))}",
        **told,
        envelope={"reason": reason, "details": details},
        lists_columns=True,
    )
