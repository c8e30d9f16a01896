"""Render the gate's envelope as the text that a model reads.

The envelope is the record, this its rendering. Printed text is unchanged, tables become rows, and
nothing is repeated that the call or an earlier result said: the possible next calls are listed only
if they have changed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from parsimony_kernel.core.kinds import GUIDANCE
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.core.text import from_json

# The limits for an older result: characters of printed text, and lines of a table.
BRIEF_TEXT = 600
BRIEF_LINES = 6

# Starts the last line, if the possible calls have changed.
NEXT = "You may call now: "
# Introduces column values that the model has not seen yet.
VALUES = "(some values of each column, not rows: "
# A digest, or a path made of one; it names something that has a title as well.
_DIGEST = re.compile(r"(?:\S*[^0-9a-f\s])?[0-9a-f]{64}(?:[^0-9a-f\s]\S*)?")
_NUMPY = re.compile(r"\bnp\.(?:float|int|uint|bool|str)\d*_?\(([^()]*)\)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Marks the cut in the middle of a long text.
_CUT = " characters left out …"
_SHORTENED = "[older, shortened]"
# Fields already covered by the call, the failure's sentence, or the lines that follow.
_SAID = frozenset(
    {"requested", "error", "message", "error_type", "error_message", "result", "state"}
    | {"valid_next_actions", "note"}
)
_SPELLINGS = {
    "several": "some values differ only in capitals or outer spaces",
    "blank": "some values are blank",
}
_CALLED = {"not_found": "Found in no result, and marked so for the person"}
# Calls that were not started, so these are not failures.
_NO_ERRORS = frozenset({"not_run", "not_allowed", "cancelled"})
# Of a result of code, the lists of variables.
_NAMES = {
    "also_changed": "Changed, not described",
    "overwritten": "Changed, and the person's",
    "deleted": "Deleted",
}
_OF_CODE = frozenset({"stdout", "stderr", "outputs", "variables", "printed_before"})
_OF_AN_OUTPUT = frozenset(
    {"type", "name", "rows", "columns", "more_columns", "columns_left_out", "text", "python_type"}
    | {"kind", "library", "title", "description"}
)

# Columns whose values the model has seen: name and dtype, with these values if others are news.
Described = set[tuple[str, ...]]


def envelope_in(content: Any) -> dict[str, Any] | None:
    """Return the envelope in a tool message; ``None`` if something else wrote the message."""
    if not isinstance(content, str) or not content.startswith("{"):
        return None
    value = from_json(content)
    is_ours = isinstance(value, dict) and bool(value.keys() & {"requested", "error"})
    return value if is_ours else None


def as_text(envelope: dict[str, Any], known: Sequence[str], described: Described) -> str:
    """Render a whole result.

    Args:
        envelope: the gate's result.
        known: the calls that the model was last told are possible.
        described: the columns described before; those described here are added.
    """
    return "\n".join(_parts(envelope, described, known)) or "Done."


def in_brief(envelope: dict[str, Any]) -> str:
    """Render an older result: how it ended, the start of its printed text and outputs, and
    names.
    """
    return "\n".join([_SHORTENED, *_parts(envelope, None, None)])


def text_in_brief(text: str) -> str:
    """Return the start of an older result that is not an envelope."""
    return text if len(text) <= BRIEF_TEXT else f"{text[:BRIEF_TEXT]}… {_SHORTENED}"


def variable_in_text(variable: dict[str, Any], described: Described) -> dict[str, Any]:
    """Return a variable of the inventory, with a table's columns, dtypes and samples in one line.

    ``described`` is extended as in ``as_text``, each column with its values: another table may have
    different ones under the same name.
    """
    if not isinstance(variable.get("columns"), list):
        return variable
    columns = _columns(variable)
    told = [
        _column(each) + (f": {_values(each['samples'])}" if each.get("samples") else "")
        for each in columns
    ]
    sampled = _sampled(columns).items()
    described.update((*key, *map(str, each["samples"])) for key, each in sampled)
    kind = {"type": variable["kind"]} if "kind" in variable else {}
    rest = {name: fact for name, fact in variable.items() if name != "kind"}
    return {**rest, **kind, "columns": "; ".join(told)}


# ``None`` for an older result, which is rendered in brief.
_Described = Described | None


def _text(text: str, described: _Described) -> str:
    text = text.strip("\n")
    is_whole = described is not None or len(text) <= BRIEF_TEXT
    return text if is_whole else f"{text[:BRIEF_TEXT]}…"


def _parts(
    envelope: dict[str, Any], described: _Described, known: Sequence[str] | None
) -> Iterator[str]:
    error = envelope.get("error")
    sentence = str(envelope.get("message", ""))
    if error in _NO_ERRORS:
        yield sentence[:1].upper() + sentence[1:]
    elif error is not None:
        what = "Refused, nothing was run" if error in GUIDANCE else "Failed"
        yield f"{what} ({error}): {sentence}".rstrip(": ")
    result = envelope.get("result")
    if isinstance(result, dict) and _OF_CODE & result.keys():
        yield from _of_code(result, described, failed=error is not None)
    elif isinstance(result, dict) and "type" in result:
        yield from _output(result, described)
        yield from _value({k: v for k, v in result.items() if k not in _OF_AN_OUTPUT}, described)
    elif result is not None:
        yield from _value(result, described)
    for key, value in envelope.items():
        if key not in _SAID and not _is_in(value, sentence):
            yield f"{_CALLED.get(key, key)}: {_in_a_line(value)}"
    if note := envelope.get("note"):
        yield str(note)
    following = envelope.get("valid_next_actions")
    if known is not None and isinstance(following, list):
        is_news = following != list(known)
        if following and (error in GUIDANCE or is_news) and "known_actions" not in envelope:
            yield f"{NEXT}{', '.join(map(str, following))}"


def _is_in(value: Any, sentence: str) -> bool:
    """Return whether ``sentence`` contains the value, or all of its items."""
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, str) and each in sentence for each in values)


def _of_code(result: dict[str, Any], described: _Described, *, failed: bool) -> Iterator[str]:
    printed = str(result.get("stdout") or "")
    ends = _ends(result, printed)
    if failed and printed.strip("\n"):
        yield "Printed before that:"
    yield from _printed(printed[: ends[0]], described)
    if warned := result.get("stderr"):
        yield f"stderr:\n{_text(str(warned), described)}"
    # The output that has each set of columns, to avoid repeating shared ones.
    alike: dict[str, str] = {}
    # The exception is in the failure's sentence.
    outputs = [each for each in _dicts(result.get("outputs")) if each.get("type") != "exception"]
    nouns = [_noun(each) for each in outputs]
    for index, (noun, output) in enumerate(zip(nouns, outputs, strict=True)):
        nth = f"{_ordinal(nouns[: index + 1].count(noun))} " if nouns.count(noun) > 1 else ""
        if columns := _like_columns(output):
            alike.setdefault(columns, f"the {nth}{noun} shown")
        yield from _output(output, described)
        if index + 1 < len(ends):
            yield from _printed(printed[ends[index] : ends[index + 1]], described)
    for variable in _dicts(result.get("variables")):
        name, columns = variable.get("name"), _like_columns(variable)
        if columns in alike:
            yield f"`{name}`: {_size(variable)}, columns as {alike[columns]}"
            continue
        if columns:
            alike[columns] = f"`{name}`"
        yield f"`{name}`: {' '.join(_output(variable, described))}"
    for key, words in _NAMES.items():
        if names := result.get(key):
            yield f"{words}: {', '.join(map(str, names))}"
    rest = {k: v for k, v in result.items() if k not in _OF_CODE | _NAMES.keys()}
    if rest.pop("truncated", False) and not result.get("also_changed"):
        yield "(cut: there was more of this output)"
    yield from (f"{key}: {_in_a_line(value)}" for key, value in rest.items())


def _ends(result: dict[str, Any], printed: str) -> list[int]:
    """Return the positions in ``printed`` at which displays came; all text comes first if
    unknown.
    """
    before = result.get("printed_before")
    # The counts don't apply to text that was cut or redacted.
    known = isinstance(before, list) and _CUT not in printed and REDACTED not in printed
    return [*before, len(printed)] if known and isinstance(before, list) else [len(printed)]


def _printed(text: str, described: _Described) -> Iterator[str]:
    if text.strip("\n"):
        yield _text(text, described)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _like_columns(table: dict[str, Any]) -> str:
    """Return a table's columns as a key shared by similar tables; empty if there are none."""
    columns = [(c.get("name"), c.get("dtype"), c.get("missing")) for c in _columns(table)]
    more = table.get("more_columns"), table.get("columns_left_out")
    return json.dumps([columns, more], default=str) if columns else ""


def _size(table: dict[str, Any]) -> str:
    """Return the kind, with the library if it is not pandas, and the number of rows."""
    rows = table.get("rows")
    of = f"{table['library']} " if table.get("library") else ""
    noun = "row" if table.get("kind") is None else "value"
    counted = f"{noun}s not counted" if rows is None else f"{rows:,} {noun}{'s' * (rows != 1)}"
    return f"{of}{_noun(table)}, {counted}"


def _noun(output: dict[str, Any]) -> str:
    """Return the noun for a table or a figure; empty for anything else."""
    nouns = {"dataframe": output.get("kind", "table"), "figure": "figure"}
    return str(nouns.get(str(output.get("type")), ""))


def _ordinal(number: int) -> str:
    return ("first", "second", "third")[number - 1] if number < 4 else f"{number}th"


def _columns(table: dict[str, Any]) -> list[dict[str, Any]]:
    return _dicts(table.get("columns"))


def _output(output: dict[str, Any], described: _Described) -> Iterator[str]:
    match output.get("type"):
        case "dataframe":
            yield from _table(output, described)
        case "figure":
            words = ". ".join(filter(None, (output.get("title"), output.get("description"))))
            yield f"A figure: {words}" if words else "A figure without a title"
        case _ if "text" in output:
            kind = output.get("python_type")
            text = _text(str(output["text"]), described)
            yield f"{_plain(text)} ({kind})" if kind and "\n" not in text else text
        case _:
            yield _in_a_line({k: v for k, v in output.items() if k != "name"})


def _table(table: dict[str, Any], described: _Described) -> Iterator[str]:
    columns = _columns(table)
    text = table.get("text")
    more = [*map(str, table.get("more_columns") or ())]
    if left_out := table.get("columns_left_out"):
        more.append(f"{left_out} more")
    named = [str(c.get("name")) if described is None else _column(c) for c in columns]
    yield f"{_size(table)}: {', '.join([*named, *more])}"
    if isinstance(text, str):
        rows = text.split("\n")
        is_cut = described is None and len(rows) > BRIEF_LINES
        yield "\n".join([*rows[:BRIEF_LINES], "…"]) if is_cut else text
    if described is None:
        return
    sampled = _sampled(columns)
    new = [
        each
        for key, each in sampled.items()
        if described.isdisjoint((key, (*key, *map(str, each["samples"]))))
        # For floats and booleans, the rows are informative enough.
        and not (isinstance(text, str) and key[1].startswith(("float", "bool")))
    ]
    described.update(sampled)
    if new:
        told = "; ".join(f"{c['name']}: {_values(c['samples'])}" for c in new)
        yield f"{VALUES}{told})"


def _sampled(columns: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the columns that get sample values, by name and dtype.

    A column that was empty (NaT) says nothing about later values.
    """
    told = (each for each in columns if each.get("samples") not in (None, [], ["NaT"]))
    return {(str(each["name"]), str(each.get("dtype"))): each for each in told}


def _plain(text: str) -> str:
    """Remove the noise from a repr: numpy's names around numbers, and addresses."""
    return _ADDRESS.sub("", _NUMPY.sub(r"\1", text))


def _column(column: dict[str, Any]) -> str:
    facts = [str(column.get("dtype"))]
    if column.get("index"):
        facts.insert(0, "index")
    if missing := column.get("missing"):
        # Whole numbers with gaps are of a nullable type, such as Int64.
        facts[-1] = re.sub(r"^(u?)i(?=nt\d)", lambda m: f"{m[1].upper()}I", facts[-1])
        facts.append(f"{missing:,} missing")
    if told := _SPELLINGS.get(column.get("spellings", "")):
        facts.append(told)
    name = str(column.get("name"))
    shown = name if name == name.strip() else repr(name)
    return f"{shown} ({', '.join(facts)})"


def _values(samples: Any) -> str:
    return ", ".join(map(str, samples)) if isinstance(samples, list) else str(samples)


def _value(value: Any, described: _Described) -> Iterator[str]:
    """Render any other result: text as it is, the fields of an object as lines."""
    if isinstance(value, str):
        yield _text(value, described)
    elif isinstance(value, dict):
        for key, each in value.items():
            if each is False or (isinstance(each, str) and _DIGEST.fullmatch(each)):
                continue
            gap = "\n" if isinstance(each, str) and "\n" in each else " "
            yield f"{key}:{gap}{_text(_in_a_line(each), described)}"
    else:
        yield _text(_in_a_line(value), described)


def _in_a_line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
