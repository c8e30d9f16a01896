"""What a model reads of a call's answer: the gate's envelope as text.

The envelope is the record; this is its rendering. Printed text stands as it was printed, tables as
rows, and nothing is said that the call or an answer before has said: what may be called next only
where that is news.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from parsimony_kernel.core.refusals import GUIDANCE

# Of an older answer this much is kept of what was printed, in characters, and of a table in lines.
BRIEF_TEXT = 600
BRIEF_LINES = 6

# What begins the last line, where it is news.
NEXT = "You may call now: "
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SHORTENED = "[older, shortened]"
# Said by the call itself, by the sentence of the failure, or by the lines that follow.
_SAID = frozenset(
    {"requested", "error", "message", "error_type", "error_message", "result", "state"}
    | {"valid_next_actions", "note"}
)
# What was not begun, which is nobody's failure.
_NO_ERRORS = frozenset({"not_run", "not_allowed", "cancelled"})
_OF_CODE = frozenset({"stdout", "stderr", "outputs", "variables"})
_OF_AN_OUTPUT = frozenset(
    {"type", "name", "rows", "columns", "more_columns", "columns_left_out", "text", "python_type"}
    | {"title", "description"}
)


def envelope_in(content: Any) -> dict[str, Any] | None:
    """The envelope that a tool message holds; ``None`` for one that somebody else has written."""
    if not isinstance(content, str) or not content.startswith("{"):
        return None
    try:
        value = json.loads(content)
    except ValueError:
        return None
    is_ours = isinstance(value, dict) and bool(value.keys() & {"requested", "error"})
    return value if is_ours else None


def as_text(envelope: dict[str, Any], known: Sequence[str] = ()) -> str:
    """The whole of an answer. ``known`` is what the model was last told it may call."""
    return "\n".join(_parts(envelope, _Whole(), known)) or "Done."


def in_brief(envelope: dict[str, Any]) -> str:
    """An older answer: how it ended, the beginnings of what it printed and showed, and names."""
    return "\n".join([_SHORTENED, *_parts(envelope, _Brief(), None)])


def text_in_brief(text: str) -> str:
    """The beginning of an older answer that is no envelope."""
    return text if len(text) <= BRIEF_TEXT else f"{text[:BRIEF_TEXT]}… {_SHORTENED}"


class _Whole:
    """Everything, as it is."""

    is_brief = False

    def text(self, text: str) -> str:
        return text.strip("\n")

    def table(self, text: str) -> str:
        return text


class _Brief(_Whole):
    """Beginnings."""

    is_brief = True

    def text(self, text: str) -> str:
        text = text.strip("\n")
        return text if len(text) <= BRIEF_TEXT else f"{text[:BRIEF_TEXT]}…"

    def table(self, text: str) -> str:
        lines = text.split("\n")
        return "\n".join([*lines[:BRIEF_LINES], *(["…"] if len(lines) > BRIEF_LINES else [])])


def _parts(envelope: dict[str, Any], cut: _Whole, known: Sequence[str] | None) -> Iterator[str]:
    error = envelope.get("error")
    sentence = str(envelope.get("message", ""))
    if error in _NO_ERRORS:
        yield sentence[:1].upper() + sentence[1:]
    elif error is not None:
        what = "Refused, nothing was run" if error in GUIDANCE else "Failed"
        yield f"{what} ({error}): {sentence}".rstrip(": ")
    result = envelope.get("result")
    if isinstance(result, dict) and _OF_CODE & result.keys():
        yield from _of_code(result, cut, failed=error is not None)
    elif isinstance(result, dict) and "type" in result:
        yield from _output(result, cut)
        yield from _value({k: v for k, v in result.items() if k not in _OF_AN_OUTPUT}, cut)
    elif result is not None:
        yield from _value(result, cut)
    for key, value in envelope.items():
        if key not in _SAID and not _is_in(value, sentence):
            yield f"{key}: {_in_a_line(value)}"
    if note := envelope.get("note"):
        yield str(note)
    following = envelope.get("valid_next_actions")
    if known is not None and isinstance(following, list):
        is_news = following != list(known)
        if following and (error in GUIDANCE or is_news) and "known_actions" not in envelope:
            yield f"{NEXT}{', '.join(map(str, following))}"


def _is_in(value: Any, sentence: str) -> bool:
    """Whether ``sentence`` names it, or all of it."""
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, str) and each in sentence for each in values)


def _of_code(result: dict[str, Any], cut: _Whole, *, failed: bool) -> Iterator[str]:
    printed = result.get("stdout")
    if isinstance(printed, str) and printed.strip("\n"):
        yield f"Printed before that:\n{cut.text(printed)}" if failed else cut.text(printed)
    if warned := result.get("stderr"):
        yield f"stderr:\n{cut.text(str(warned))}"
    shown: dict[str, str] = {}
    for number, output in enumerate(_dicts(result.get("outputs")), 1):
        if output.get("type") == "exception":
            continue  # the sentence of the failure says it
        shown.setdefault(_likeness(output), f"the table shown{f' ({number}.)' * (number > 1)}")
        yield from _output(output, cut)
    for variable in _dicts(result.get("variables")):
        name = variable.get("name")
        same = shown.get(_likeness(variable)) if variable.get("type") == "dataframe" else None
        told = same or " ".join(_output(variable, cut))
        yield f"`{name}`: {told}"
    for key, words in (("overwritten", "Rebound, and the person's"), ("deleted", "Deleted")):
        if names := result.get(key):
            yield f"{words}: {', '.join(map(str, names))}"
    rest = {k: v for k, v in result.items() if k not in _OF_CODE | {"overwritten", "deleted"}}
    if rest.pop("truncated", False):
        yield "(cut: there was more of this output)"
    yield from (f"{key}: {_in_a_line(value)}" for key, value in rest.items())


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _likeness(table: dict[str, Any]) -> str:
    """What two descriptions of one table have in common."""
    columns = [(c.get("name"), c.get("dtype"), c.get("missing")) for c in _columns(table)]
    return json.dumps([table.get("rows"), columns], default=str)


def _columns(table: dict[str, Any]) -> list[dict[str, Any]]:
    return _dicts(table.get("columns"))


def _output(output: dict[str, Any], cut: _Whole) -> Iterator[str]:
    match output.get("type"):
        case "dataframe":
            yield from _table(output, cut)
        case "figure":
            words = ". ".join(filter(None, (output.get("title"), output.get("description"))))
            yield f"A figure: {words}" if words else "A figure without a title"
        case _ if "text" in output:
            kind = output.get("python_type")
            text = cut.text(str(output["text"]))
            yield f"{text} ({kind})" if kind and "\n" not in text else text
        case _:
            yield _in_a_line({k: v for k, v in output.items() if k != "name"})


def _table(table: dict[str, Any], cut: _Whole) -> Iterator[str]:
    columns = _columns(table)
    text = table.get("text")
    rows = table.get("rows")
    size = "rows not counted" if rows is None else f"{rows:,} row{'s' * (rows != 1)}"
    more = [*map(str, table.get("more_columns") or ())]
    if left_out := table.get("columns_left_out"):
        more.append(f"{left_out} more")
    if cut.is_brief:
        names = ", ".join([*(str(c.get("name")) for c in columns), *more])
        yield f"table, {size}: {names}"
    else:
        yield f"table, {size}: {', '.join([*map(_column, columns), *more])}"
    if isinstance(text, str):
        yield cut.table(text)
    sampled = [c for c in columns if c.get("samples")]
    if sampled and not cut.is_brief:
        told = "; ".join(f"{c['name']}: {_values(c['samples'])}" for c in sampled)
        yield f"Distinct values, not rows: {told}"


def _column(column: dict[str, Any]) -> str:
    facts = [str(column.get("dtype"))]
    if column.get("index"):
        facts.insert(0, "index")
    if missing := column.get("missing"):
        facts.append(f"{missing:,} missing")
    return f"{column.get('name')} ({', '.join(facts)})"


def _values(samples: Any) -> str:
    return ", ".join(map(str, samples)) if isinstance(samples, list) else str(samples)


def _value(value: Any, cut: _Whole) -> Iterator[str]:
    """Any other result: a text as it is, the fields of an object in lines."""
    if isinstance(value, str):
        yield cut.text(value)
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, str) and _DIGEST.fullmatch(each):
                continue  # it names a thing that a title names too
            is_text = isinstance(each, str) and "\n" in each
            yield f"{key}:\n{cut.text(each)}" if is_text else f"{key}: {cut.text(_in_a_line(each))}"
    else:
        yield cut.text(_in_a_line(value))


def _in_a_line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
