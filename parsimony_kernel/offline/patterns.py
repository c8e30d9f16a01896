"""The table of patterns, read once: its rows as regular expressions, and the words they know."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Row = Mapping[str, Any]


@cache
def table() -> Mapping[str, Any]:
    """Read ``patterns.toml``."""
    text = files("parsimony_kernel.offline").joinpath("patterns.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def rows() -> list[tuple[re.Pattern[str], Row]]:
    """Compile the rows of the table, with the meaning of their braces filled in."""
    several = r"(?: (?:,|and|or|&|, and|, or) (?:the )?{0})*"
    macros = {
        "the": "(?:(?:the|a|an|its|their|all|my|each|only) )*",
        "agg": f"(?:{'|'.join(table()['words'].values())})",
        "op": f"(?:{'|'.join(map(re.escape, operators()))})",
        # The second letter of a column's mark says what it holds.
        "C": r"C[mtk]\d+",
        **{f"C{kind}": rf"C{kind}\d+" for kind in "mtk"},
        **{each: rf"{each}\d+" for each in "VNTQPD"},
    }
    macros |= {f"{each}s": macros[each] + several.format(macros[each]) for each in "CV"}
    macros["Gs"] = r"(?:C[mtk]|P)\d+(?: (?:,|and|&|, and|by|, by) (?:the |by )*(?:C[mtk]|P)\d+)*"
    texts = (
        (re.sub(r"\{(\w+)\}", lambda m: macros[m[1]], r["re"]), r) for r in table()["row"].values()
    )
    return [(re.compile(rf"(?<![^ ])(?:{text})(?![^ ])"), row) for text, row in texts]


@cache
def asides() -> list[tuple[re.Pattern[str], str]]:
    """Compile what a part of a request may say as a whole, with what that is."""
    end = r"(?: please| pls| thanks|[ ,.?!:])*"
    return [(re.compile(f"(?i){row['re']}{end}"), row["kind"]) for row in table()["aside"].values()]


def examples() -> list[str]:
    """List a request for each row."""
    listed = [*table()["aside"].values(), *table()["row"].values()]
    return [str(row["example"]) for row in listed if "example" in row]


def operators() -> dict[str, str]:
    """List the words that compare, with their operator."""
    listed = table()["operators"].items()
    return {word: operator for operator, words in listed for word in words.split("|")}


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
    texts += [*table()["words"].values(), *operators()]
    texts += [part.get("words", "") for part in table()["parts"].values()]
    plain = re.sub(r"\(\?P<\w+>|\{\w+\}|\\\w", " ", " ".join(texts))
    whole = re.findall(r"[a-z]{2,}", plain.replace("?", "") + " " + re.sub(r"\w\?", "", plain))
    return frozenset(whole) | filler("words")


def aggregate(word: str) -> str:
    """Name the function of a word; empty for any other word."""
    found = (name for name, words in table()["words"].items() if re.fullmatch(words, word.strip()))
    return next(found, "")
