"""The table of patterns and its words; text becomes tokens, names become Python.

The rows of ``patterns.toml`` are compiled once. Printed lines become sentences.
"""

import builtins
import json
import keyword
import re
import sys
import tomllib
from calendar import month_name
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, count
from typing import Any

from parsimony_kernel.core.fuzzy import words_of
from parsimony_kernel.identity import slug_from_title

Row = Mapping[str, Any]


@cache
def table() -> Mapping[str, Any]:
    """Read ``patterns.toml``."""
    text = files("parsimony_kernel.offline").joinpath("patterns.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def rows() -> list[tuple[re.Pattern[str], Row]]:
    """Compile the rows of the table, with the meaning of their braces filled in.

    A row takes its words out of the request and sets slots of the query; rows are tried from the
    top. Words are lower case, marks stand for what was recognised before: ``{C}`` a column
    (``{Cm}`` a measure, ``{Ct}`` a time, ``{Cb}`` yes or no, ``{Ck}`` any other), ``{V}`` a value
    (``M``, a month), ``{N}`` a number, ``{T}`` a table, ``{Q}`` a quoted text, ``{P}`` a part of a
    date, ``{D}`` a date; ``{Cs}``, ``{Vs}`` and ``{Gs}`` are lists; ``{agg}`` is a function. Named
    groups and ``set`` are slots; a row with ``no`` says why it is none of ours. ``example`` is
    tested, and shown by docs.
    """
    return [(_whole(row["re"]), row) for row in table()["row"].values()]


def _whole(text: str) -> re.Pattern[str]:
    """Compile ``text`` for whole words, with the meaning of its braces filled in."""
    filled = re.sub(r"\{(\w+)\}", lambda m: macros()[m[1]], text)
    return re.compile(rf"(?<![^ ])(?:{filled})(?![^ ])")


@cache
def macros() -> Mapping[str, str]:
    """List what the braces of a row stand for; a macro may use those above it."""
    plain = {each: rf"{each}\d+" for each in ("Cm", "Ct", "Ck", "Cb", *"VNTQPD")}
    plain["agg"] = f"(?:{'|'.join(functions().values())})"
    plain["op"] = f"(?:{'|'.join(map(re.escape, operators()))})"
    for name, text in table()["macros"].items():
        plain[name] = re.sub(r"\{(\w+)\}", lambda m: plain[m[1]], text)
    return plain


@cache
def asides() -> list[tuple[re.Pattern[str], str]]:
    """Compile what a part of a request may say as a whole, with what that is."""
    end = r"(?: please| pls| thanks|[ ,.?!:])*"
    return [(re.compile(f"(?i){row['re']}{end}"), row["kind"]) for row in table()["aside"].values()]


def functions() -> dict[str, str]:
    """List the functions that have words of their own, with them."""
    return {each: row["words"] for each, row in table()["functions"].items() if "words" in row}


def operators() -> dict[str, str]:
    """List the words that compare, with their operator."""
    return {word: op for op, words in table()["operators"].items() for word in words.split("|")}


def clause(kind: str, text: str) -> bool:
    """Whether ``text`` is wholly what ``clauses`` describes."""
    return bool(re.fullmatch(table()["clauses"][kind], text, re.DOTALL))


def filler(kind: str) -> frozenset[str]:
    """List words that have no pattern of their own; those of ``words`` say nothing."""
    return frozenset(table()["fillers"][kind].split())


@cache
def keywords() -> frozenset[str]:
    """List the words that the patterns are made of: no part of a name is guessed from them."""
    texts = [row["re"] for row in table()["row"].values()]
    texts += [*functions().values(), *operators()]
    texts += [part.get("words", "") for part in table()["parts"].values()]
    plain = re.sub(r"\(\?P<\w+>|\{\w+\}|\\\w", " ", " ".join(texts))
    whole = re.findall(r"[a-z]{2,}", plain.replace("?", "") + " " + re.sub(r"\w\?", "", plain))
    return frozenset(whole) | filler("stop") | filler("rows")


def aggregate(word: str) -> str:
    """Name the function of a word; empty for any other word."""
    return next((f for f, words in functions().items() if re.fullmatch(words, word.strip())), "")


def part(low: str) -> str:
    """Name the part of a date that a word stands for; empty for any other word."""
    parts = table()["parts"].items()
    return next((name for name, row in parts if re.fullmatch(row.get("words", "-"), low)), "")


_FILES = "|".join(table()["spellings"]["files"])
_KINDS = (f"(?P<{kind}>{text})" for kind, text in table()["tokens"].items())
MONTHS = [name.lower() or "-" for name in month_name]
_TOKEN = re.compile("|".join(_KINDS).replace("FILES", _FILES), re.IGNORECASE)


@dataclass(frozen=True)
class Token:
    """A piece of a request: ``text`` as it was written."""

    kind: str
    text: str

    @property
    def bare(self) -> str:
        """The text without quotes."""
        return self.text[1:-1] if self.kind == "quoted" else self.text

    @property
    def low(self) -> str:
        """The text for comparing."""
        return self.text.casefold()


def tokenize(text: str) -> list[Token]:
    """Split ``text`` into tokens, without "of"."""
    tokens = (Token(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(text))
    return [_meant(each) for each in tokens if each.kind != "of"]


def _meant(token: Token) -> Token:
    """A quoted name of a data file is a file, and "March 2024" the date 2024-03."""
    if token.kind == "month":
        month = [name[:3] for name in MONTHS].index(token.low[:3])
        return Token("date", f"{token.text[-4:]}-{month:02}")
    is_file = token.kind == "quoted" and is_data_file(token.bare)
    return Token("file", token.bare) if is_file else token


def is_data_file(name: str) -> bool:
    """Whether the name ends like a file of a known format."""
    return re.search(rf"\.(?:{_FILES})$", name, re.IGNORECASE) is not None


fold = lru_cache(maxsize=4096)(words_of)


@lru_cache(maxsize=4096)
def singular(word: str) -> str:
    """A plain singular: enough to see that ``countries`` is ``country``."""
    found = (re.subn(rule, end, word) for rule, end in table()["plurals"].items())
    return next((text for text, is_so in found if is_so), word)


def stem(name: str) -> str:
    """``name`` for comparing: its words in the singular, without what is between them."""
    return "".join(map(singular, fold(name)))


def spelling(text: str) -> str:
    """Write ``text`` in the one way in which values are compared: "Non-member", "non member"."""
    return re.sub(r"(?<=[^\W\d])[-_ ]+(?=[^\W\d])", " ", text.strip().casefold())


def canonical(words: Iterable[str]) -> tuple[str, ...]:
    """``words`` as singulars, short forms unified."""
    same = table()["spellings"]["same"]
    return tuple(same.get(singular(word), singular(word)) for word in words)


def spoken(items: Iterable[str], last: str = "and") -> str:
    """``a, b and c``."""
    listed = list(items)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}" if len(listed) > 1 else "".join(listed)


# What is never bound: builtins, and modules that a notebook may have imported.
_RESERVED = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *sys.stdlib_module_names}
_RESERVED |= filler("modules")


def literal(value: object) -> str:
    """``value`` as Python source; a text in double quotes, what cannot be seen in it escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() and not isinstance(value, bool) else repr(value)


def quoted(name: str) -> str:
    """The name of a column as a request may hold it."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.casefold() not in keywords()
    return name if is_plain else f'"{name}"'


def identifier(text: str) -> str:
    """A valid name that reads like ``text``, of no builtin and no module."""
    name = slug_from_title(text)
    name = f"table_{name}" if name[0].isdigit() else name
    name = f"{name}_{'data' if 'table' in name else 'table'}" if name in _RESERVED else name
    return name if name.isidentifier() else "table_"


def unique(name: str, taken: Collection[str]) -> str:
    """``name``, numbered if it is taken."""
    names = chain([name], (f"{name}_{n}" for n in count(2)))
    return next(each for each in names if each not in taken)


_NUMBER = re.compile(r"(?<![\w.:+-])-?\d{1,15}(?:\.\d+)?(?:e[+-]?\d+)?(?![\w:+-]|\.\d)")


def sentence(line: str, unit: str, periods: Collection[str] = ()) -> str:
    """A printed line as people say it: "Highest mean mass: Gentoo, 5,076 g.".

    Args:
        line: a label, a colon and values.
        unit: that of the last value; empty without one.
        periods: the parts of dates among the values, which end there: "2012-05", "2012".
    """
    text = " ".join(line.split())
    label, colon, rest = text.partition(": ") if ": " in text else ("", "", text)
    # Years beside missing ones are floats.
    rest = re.sub(r" 00:00:00|(?<=\b\d{4})\.0(?= )", "", rest)
    for period in {*periods} & {*table()["periods"]}:
        rule, shown = table()["periods"][period]
        rest = re.sub(rule, shown, rest)
    before, space, last = rest.rpartition(" ")
    if label.endswith(" year") or last == "none":
        return f"{label}{colon}{rest}."
    if label.startswith("Rows") or not _NUMBER.fullmatch(last):
        return f"{label}{colon}{_NUMBER.sub(_rounded, rest)}."
    value = _NUMBER.sub(_rounded, last) + (f" {unit}" if unit else "")
    return f"{label}{colon}{before}{', ' * bool(space)}{value}."


def _rounded(found: re.Match[str]) -> str:
    """A number as people write it."""
    value = float(found[0])
    if abs(value) < 1:
        return f"{value:.3g}"
    text = f"{value:,.{max(0, 4 - len(str(int(abs(value)))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
