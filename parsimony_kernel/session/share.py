"""Share modes: how much of a notebook, and of a step's outcome, is sent to a model.

Rules: withheld data is replaced by a note that says so, never silently dropped; anything not known
to be free of values is withheld.
"""

import builtins
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.kinds import GUIDANCE, HELD, Failure, RefusalError
from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput, KernelOutputType
from parsimony_kernel.gate.column_check import LISTS_COLUMNS
from parsimony_kernel.gate.envelope import Envelope, bounded, plain
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.gate.procedure import QUOTES_A_GUARD
from parsimony_kernel.tools import ToolResult, Tools


class Share(StrEnum):
    """How much of the notebook is sent with a request.

    ``full``: names, types, shapes, sample values, first rows of tables, and the output of code;
    ``samples``: the same, but first rows only of tables named in the request; ``schema``: names,
    types and shapes, never a value; ``none``: only the request, and whether each step succeeded.
    """

    full = "full"
    samples = "samples"
    schema = "schema"
    none = "none"


_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
WORDS: Mapping[str, str] = _TABLE["sent"]
KEPT_OF_A_STEP: Mapping[str, str] = _TABLE["kept_of_a_step"]
KEPT_OF_THE_NOTEBOOK: Mapping[str, str] = _TABLE["kept_of_the_notebook"]
KEPT_NAME = "(a value, kept in the notebook)"
ANSWERS: Mapping[str, str | list[str]] = _TABLE["answers"]
_FIELDS, _ERRORS = _TABLE["fields"], _TABLE["errors"]
OTHER_ERROR = "Exception"

# Looks like data, not like a column name: a decimal number, money, a date, an e-mail address.
_IN_A_RECORD = re.compile(
    r"[-+]?\d*[.,]\d+(?:e[-+]?\d+)?|[-+]\d+|[$€£¥].*\d.*|.*\d[\d,.]*\s?[$€£¥%]"
    r"|\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4}(?:[T ].*)?)?|\d{1,2}:\d\d.*|\S+@\S+\.\w+",
    re.IGNORECASE,
)
# The name of an unnamed index in a summary.
_UNNAMED = "index"
_INTEGER = re.compile(r"u?int\d")
_WORD = re.compile(r"\w+")
_DTYPE = re.compile(r"(?:datetime64|timedelta64|interval|period)\[[\w, :/+.-]+\]|[A-Za-z_]\w*")


@dataclass(frozen=True)
class Step:
    """The tool call behind an outcome: tool name, code it ran, and names of the user's tools."""

    action: str
    code: str = ""
    own: Collection[str] = ()


def shared(outcome: StepOutcome, share: Share, step: Step) -> StepOutcome:
    """Redact ``outcome``, including its failure, to what ``share`` allows a model to see."""
    if share in (Share.full, Share.samples):
        return outcome
    if outcome.failure is not None:
        return _failed(outcome, outcome.failure, share, step)
    before, result = outcome.envelope, _result(outcome, share, step)
    envelope = _some(before, "requested")
    if result is not None:
        envelope["result"] = result
    if result != before.get("result"):
        envelope["note"] = KEPT_OF_A_STEP[share]
    envelope |= _some(before, *_FIELDS["gates_own"])
    return replace(outcome, envelope=bounded(envelope), result=ToolResult(data=result))


def shape_of(summary: Mapping[str, Any], code: str | None = None) -> dict[str, Any]:
    """Reduce the summary of a value to its schema: name, type, shape, columns and dtypes.

    Column names that are themselves data are masked (see ``_names_kept``), unless they occur in
    ``code``, whose author knows them already.
    """
    shape = _some(summary, *_FIELDS["shape"])
    columns = summary.get("columns")
    if isinstance(columns, list):
        each = [column for column in columns if isinstance(column, dict)]
        more = [str(name) for name in summary.get("more_columns", ())]
        known = frozenset() if code is None else read(code).strings | frozenset(_WORD.findall(code))
        kept = _names_kept(each, more, by_agent=code is not None)

        def told(name: Any) -> Any:
            return KEPT_NAME if str(name) in kept - known else name

        shape["columns"] = [
            {"name": told(column.get("name")), "dtype": _dtype(column.get("dtype"))}
            for column in each
        ]
        if more:
            shape["more_columns"] = [told(name) for name in more]
    return shape


def _names_kept(
    columns: Sequence[Mapping[str, Any]], more: Sequence[str], *, by_agent: bool
) -> frozenset[str]:
    """Return the column names of a table that are data values and must be masked.

    All names if they look like the first record of a file without a header. The names beside an
    unnamed non-integer index if there is only one, as for a single row, whose label it is; for
    code that an agent ran, also if there are several: the table may be transposed.
    """
    names = [str(column.get("name")) for column in columns]
    if looks_like_a_record([*names, *more]):
        return frozenset([*names, *more])
    index = [name for name, column in zip(names, columns, strict=True) if column.get("index")]
    beside = [*names[len(index) :], *more]
    is_on_its_side = index == [_UNNAMED] and not _INTEGER.match(_dtype(columns[0].get("dtype")))
    if is_on_its_side and (by_agent or len(beside) == 1):
        return frozenset(beside)
    return frozenset()


def looks_like_a_record(names: Collection[str]) -> bool:
    """Whether column names look like data, as when a file without a header was read.

    Several years, and positions counted from 0 or 1, count as names; so does a 0, but no other
    number on its own.
    """
    counted = sorted(int(name) for name in names if name.isdecimal())
    if len(counted) == 1 and counted != [0]:
        return True
    are_years = all(1800 <= number <= 2100 for number in counted)
    from_the_start = counted and counted[0] in (0, 1)
    are_positions = from_the_start and counted == [*range(counted[0], counted[0] + len(counted))]
    if counted and not are_years and not are_positions:
        return True
    return any(_IN_A_RECORD.fullmatch(name) for name in names)


def tools_told(own: Tools, share: Share) -> Tools:
    """Return the user's tools as ``share`` allows a model to see them.

    ``schema`` drops defaults, constants, enums and examples, which may be data; ``none`` drops all
    tools.
    """
    if share is Share.none:
        return Tools()
    if share is not Share.schema:
        return own
    bare = ((each, _bare(dict(each.parameters_schema))) for each in own.values())
    return Tools(replace(each, parameters_schema=schema) for each, schema in bare)


# -- what succeeded


def _result(outcome: StepOutcome, share: Share, step: Step) -> Any:
    """Return the redacted result of a successful step; ``None`` if all of it is withheld."""
    if outcome.request is not None or (share is Share.none and step.action == "plan"):
        return outcome.envelope.get("result")
    if share is Share.none or step.action in step.own:
        return None
    data = outcome.result.data
    if isinstance(data, KernelOutput):
        return _of_code(data, step.code)
    what, answer = ANSWERS.get(step.action), plain(data)
    if what == "all":
        return answer
    if what is None or not isinstance(answer, dict):
        return None
    if what == "shape":
        return shape_of(answer)
    told = _some(answer, *what)
    if (columns := told.pop("columns", None)) is not None:
        named = {name: _dtype(dtype) for name, dtype in dict(columns).items()}
        told["columns"] = KEPT_NAME if looks_like_a_record(named) else named
    return told


def _of_code(output: KernelOutput, code: str) -> dict[str, Any]:
    """Summarize the result of code: schemas of outputs and variables, and changed names."""

    def told(each: KernelOutputType) -> dict[str, Any]:
        if isinstance(each, ExceptionObject):
            where = _some(each.for_model(), "line", "source_line")
            return {"type": each.type, "name": kind_of(each.name, code), **where}
        return shape_of(plain(each.for_model()), code)

    parts = {
        "outputs": [told(each) for each in output.shown],
        "variables": [told(each) for each in output.variables],
        "overwritten": plain(list(output.overwritten)),
        "deleted": plain(list(output.deleted)),
    }
    return {name: part for name, part in parts.items() if part}


# -- what failed


def _failed(outcome: StepOutcome, failure: Failure, share: Share, step: Step) -> StepOutcome:
    envelope, told = outcome.envelope, replace(failure, partial_data=None)
    if not _is_the_gates(failure, share, step):
        fields, sentence = _trouble(failure, step)
        envelope = {**_some(envelope, "error", "requested"), **fields, "message": sentence}
        if share is Share.schema:
            output = failure.partial_data
            if isinstance(output, KernelOutput):
                envelope["result"] = _of_code(output, step.code)
            envelope |= _some(outcome.envelope, "variables")
        envelope |= {"note": KEPT_OF_A_STEP[share]}
        envelope = bounded(envelope | _some(outcome.envelope, *_FIELDS["gates_own"]))
        metadata = {**_some(failure.metadata, *_FIELDS["failure"]), "envelope": fields}
        told = replace(told, explanation=sentence, blockers=(), metadata=metadata)
    return replace(outcome, envelope=envelope, failure=told, result=ToolResult.from_failure(told))


def _is_the_gates(failure: Failure, share: Share, step: Step) -> bool:
    """Whether the failure's text contains only what the model may know, such as its own call."""
    if step.action in step.own:
        return failure.refusal in (RefusalError.unknown_action, RefusalError.invalid_transition)
    if failure.refusal in GUIDANCE:
        if LISTS_COLUMNS in failure.metadata and (share is Share.none or _lists_a_record(failure)):
            return False
        return not {HELD, QUOTES_A_GUARD} & failure.metadata.keys()
    kind = failure.metadata.get("envelope", {}).get("error_type")
    names = kind in _ERRORS["naming"] or kind == _ERRORS["naming_in"].get(step.action, "")
    return share is Share.schema and names


def _lists_a_record(failure: Failure) -> bool:
    """Whether the column names listed by a refusal look like a file's first record."""
    details = _each(failure.metadata.get("envelope", {}).get("details"))
    return any(looks_like_a_record(each.get("columns", ())) for each in details)


def _trouble(failure: Failure, step: Step) -> tuple[Envelope, str]:
    """Describe the kind of a failure as envelope fields and one sentence, without its values."""
    given = failure.metadata.get("envelope", {})
    fields: Envelope = {}
    output = failure.partial_data
    error = output.error if isinstance(output, KernelOutput) else None
    if error is not None:
        fields["error_type"] = kind_of(error.name, step.code)
        where = f" at line {error.line}: {error.source_line}" if error.line is not None else ""
        return fields, f"{fields['error_type']}{where}"
    if failure.metadata.get(LISTS_COLUMNS):
        return fields, f"{step.action}: a column is not there. Nothing was run."
    if HELD in failure.metadata:
        return fields, f"{step.action} waits for the person to allow it"
    if isinstance(kind := given.get("error_type"), str):
        fields["error_type"] = kind_of(kind, step.code)
        return fields, f"{step.action} failed: {fields['error_type']}"
    # Argument names only: the details may quote values.
    if named := [_some(each, "field") for each in _each(given.get("details")) if "field" in each]:
        fields["details"] = named
    what = "was refused" if failure.refusal in GUIDANCE else "failed"
    return fields, f"{step.action} {what}"


def _each(details: Any) -> list[dict[str, Any]]:
    """Return the details of a refusal as a list; they may be one dict or several."""
    listed = details if isinstance(details, list) else [details]
    return [each for each in listed if isinstance(each, dict)]


# -- errors

# An error message may quote any value, so only its class and line are shared.


def kind_of(name: str, code: str) -> str:
    """Return an exception's class name if Python, a known library or ``code`` has it.

    Any other name could be data, and is replaced by ``Exception``.
    """
    is_pythons = isinstance(getattr(builtins, name, None), type)
    is_known = is_pythons or name in _ERRORS["known"] or name in re.findall(r"[^\W\d]\w*", code)
    return name if is_known else OTHER_ERROR


# -- parts


def _some(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _dtype(dtype: Any) -> str:
    """Format a dtype without values it may list, such as the categories of an enum."""
    found = _DTYPE.match(str(dtype))
    return "" if found is None else found.group()


def _bare(schema: Any, *, is_named: bool = False) -> Any:
    """Strip values from a JSON Schema.

    With ``is_named`` the keys are property names, not keywords, so all of them are kept.
    """
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _bare(value, is_named=not is_named and key in ("properties", "$defs"))
        for key, value in schema.items()
        if is_named or key not in ("const", "default", "enum", "examples")
    }
