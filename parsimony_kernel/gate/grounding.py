"""Columns that code takes for granted, against the frames as they are.

Reads syntax and column names, never rows. It speaks only of a frame that is bound now and that
the code has not had a chance to change: when in doubt it says nothing.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.execution.frames import cell
from parsimony_kernel.gate.column_uses import Use, column_uses
from parsimony_kernel.gate.frame_columns import Frame, frame_of
from parsimony_kernel.gate.nearness import near_columns
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.taxonomy import FailureType

MAX_NAMED = 40
MAX_CHOICES = 8


def columns_exist(variables: Callable[[], Mapping[str, Any]]) -> Stage:
    """Code asks frames only for columns that they have.

    One near name is offered, several are a question, and nothing is ever substituted.
    """

    def stage(attempt: Attempt) -> Failure | None:
        code = attempt.inputs.get("code")
        if attempt.action != "run_code" or not isinstance(code, str):
            return None
        tree = _parsed(code)
        if tree is None:
            return None
        mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        bound = variables()
        frames = {
            name: frame
            for name in sorted(mentioned)
            if name in bound and (frame := frame_of(bound[name])) is not None
        }
        missing = [
            use
            for use in dict.fromkeys(column_uses(tree, frames))
            if not frames[use.frame].has(use.column, or_level=use.or_level)
        ]
        return _refusal(missing, frames) if missing else None

    return stage


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _refusal(missing: Sequence[Use], frames: Mapping[str, Frame]) -> Failure:
    near = {use: near_columns(use.column, frames[use.frame].names()) for use in missing}
    for use in missing:
        if len(near[use]) > 1:
            return _question(use, near[use][:MAX_CHOICES])
    details = [_detail(use, near[use], frames[use.frame]) for use in missing[:MAX_CHOICES]]
    parts = [
        f"`{use.frame}` has no column {cell(use.column)!r}"
        + (f" (did you mean {near[use][0]!r}?)" if near[use] else "")
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
    offered = [near[use][0] for use in missing if near[use]]
    if len(offered) == 1:
        envelope["did_you_mean"] = offered[0]
    return Failure(
        FailureKind.tool_error,
        f"{reason}. {listed} Nothing was run.",
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.SCHEMA_MISMATCH,
            "envelope": envelope,
        },
    )


def _detail(use: Use, near: Sequence[str], frame: Frame) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "field": "code",
        "frame": use.frame,
        "column": cell(use.column),
        "columns": [cell(each) for each in frame.columns[:MAX_NAMED]],
    }
    return {**detail, "did_you_mean": near[0]} if near else detail


def _listing(frame: Frame) -> str:
    shown = ", ".join(repr(cell(each)) for each in frame.columns[:MAX_NAMED])
    more = len(frame.columns) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def _question(use: Use, choices: Sequence[str]) -> Failure:
    question = f"Which column of `{use.frame}` do you mean by {cell(use.column)!r}?"
    reason = f"`{use.frame}` has no column {cell(use.column)!r}, and several come near"
    named = ", ".join(repr(each) for each in choices)
    return Failure(
        FailureKind.ambiguous_input,
        f"{reason}: {named}",
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.UNKNOWN,
            "question": question,
            "choices": list(choices),
            "envelope": {
                "reason": reason,
                "details": {
                    "field": "code",
                    "frame": use.frame,
                    "column": cell(use.column),
                    "question": question,
                    "choices": list(choices),
                },
            },
        },
    )
