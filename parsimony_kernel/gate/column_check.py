"""Column check: compare the columns that code looks up with those that the frames have.

It reads syntax, column names and lengths, never rows. It judges only frames that are bound now and
that the code can't have changed before the lookup; when in doubt it reports nothing.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.analysis.calls import COLUMNS_OR_LEVELS
from parsimony_kernel.analysis.cell_names import Cell
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.causes import BAD_ARGUMENTS, COLUMNS_NEAR
from parsimony_kernel.core.fuzzy import is_said, near_columns
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.execution.frames import cell
from parsimony_kernel.gate.stages import Attempt, Stage

MAX_NAMED = 40
MAX_CHOICES = 8
# Metadata key of a failure whose message lists column names of the notebook.
LISTS_COLUMNS = "lists_columns"


@dataclass(frozen=True)
class Frame:
    """Column names of a table.

    ``levels`` are the names of its index, ``depth`` the number of index levels, ``rows`` its
    length and ``identity`` the ``id`` of the object.
    """

    columns: Any
    levels: frozenset[str]
    depth: int
    rows: int
    identity: int

    def names(self) -> list[str]:
        """Return the column names that are text, each once."""
        return list(dict.fromkeys(each for each in self.columns if isinstance(each, str)))


def frame_of(value: Any) -> Frame | None:
    """Return the columns of a pandas or polars frame; ``None`` for anything else or a subclass."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and type(value) is getattr(pandas, "DataFrame", None):
        # Date and tuple labels have their own lookup rules.
        if type(value.columns) is not pandas.Index:
            return None
        levels = frozenset(each for each in value.index.names if isinstance(each, str))
        return Frame(value.columns, levels, value.index.nlevels, len(value), id(value))
    if polars is not None and type(value) is getattr(polars, "DataFrame", None):
        return Frame(tuple(value.columns), frozenset(), 1, len(value), id(value))
    return None


def columns_exist(
    variables: Callable[[], Mapping[str, Any]], persons_words: Callable[[], str] = lambda: ""
) -> Stage:
    """Build a stage that refuses code which looks up columns that a frame doesn't have.

    One near name is offered as a hint. Among several near names the person chooses, if the missing
    name is from the person's own words and none of the near ones is; otherwise the model chooses.
    No name is substituted automatically.

    Args:
        variables: returns the live namespace.
        persons_words: returns the person's own words; if empty, several near names are a question.
    """

    def stage(attempt: Attempt) -> Failure | None:
        code = attempt.inputs.get("code")
        if attempt.action != "run_code" or not isinstance(code, str):
            return None
        read_cell, bound = read(code), variables()
        named = {name: frame_of(bound.get(name)) for name in sorted(read_cell.reads)}
        frames = {name: frame for name, frame in named.items() if frame is not None}
        missing = dict.fromkeys(_missing(read_cell, frames)) if frames else ()
        return _refusal([*missing][:MAX_CHOICES], frames, persons_words()) if missing else None

    return stage


def _missing(cell: Cell, frames: Mapping[str, Frame]) -> Iterator[tuple[str, str]]:
    """Yield (frame name, column) for each column that code looks up and the frame lacks."""
    for lookup in cell.columns if cell.error is None else ():
        frame = frames.get(lookup.frame)
        if frame is None or _is_doubted(frame, lookup.doubted, frames):
            continue
        # MultiIndex rows, and lists as long as the frame (masks), have their own lookup rules.
        if lookup.method == "loc" and frame.depth > 1:
            continue
        if lookup.method and len(lookup.columns) == frame.rows:
            continue
        known = frame.levels if lookup.method in COLUMNS_OR_LEVELS else ()
        for column in lookup.columns:
            if column not in frame.columns and column not in known:
                yield lookup.frame, column


def _is_doubted(frame: Frame, doubted: frozenset[str], frames: Mapping[str, Frame]) -> bool:
    """Whether the code may have changed ``frame`` before the lookup, through any of its names."""
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
    found, reasons, listed = list[dict[str, Any]](), list[str](), dict[str, str]()
    for name, missed in missing:
        frame, column = frames[name], cell(missed)
        near = near_columns(missed, frame.names())
        meant = [each for each in near if is_said(each, words)] if len(near) > 1 else near
        # Whether the person used the missing name, and none of the near columns.
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
        found.append(detail)
        reasons.append(f"`{name}` has no column {column!r}{hint}")
    reason = "; ".join(reasons)
    envelope: dict[str, Any] = {"reason": reason, "details": found[0] if len(found) == 1 else found}
    offered = [each["did_you_mean"] for each in found if "did_you_mean" in each]
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
    found: dict[str, Any] = {"question": question, "choices": choices}
    details = {"field": "code", "frame": name, "column": column, **found}
    return COLUMNS_NEAR.failure(
        f"{reason}: {', '.join(map(repr, choices))}",
        **found,
        envelope={"reason": reason, "details": details},
        lists_columns=True,
    )
