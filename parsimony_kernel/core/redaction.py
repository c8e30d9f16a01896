"""Keys and passwords, taken out of texts.

Known are the values of environment variables whose names end like a key's and whatever is handed
in; beside them goes everything that has the shape of a key, of an authorization header or of a
password that is given by name. A text that was clean stays as it was, to the letter.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

REDACTED = "[redacted]"

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_NAMES = {name: re.compile(each, re.IGNORECASE) for name, each in _TABLE["names"].items()}
# Names of environment variables that hold a key: one list for what code may read unasked and for
# what is taken out of texts.
NAMES_A_KEY = _NAMES["key"]

# A shorter value of the environment is no key: removing every "1" or "true" would spoil the text.
# A shorter one that was handed in is removed where it stands alone.
_SECRET_LENGTH = 6
# Under any other name of a key stand settings too, such as AUTH_METHOD=oauth.
_DRAWN = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])(?!\S*://)\S{8,}")
_USER_IN_ADDRESS = re.compile(r"://([^\s:/@]{16,400})@")
_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s:/@]{0,200}:([^\s/@]{1,400})@")


def _shapes() -> Iterator[tuple[list[str], re.Pattern[str], str]]:
    """The shapes of secrets: parts without one of which each is not met, and what stays of it."""
    for shape in _TABLE["shape"]:
        pattern = shape["pattern"]
        for name, part in _TABLE["parts"].items():
            pattern = pattern.replace(f"{{{name}}}", part)
        kept = shape.get("kept", "")
        yield shape["beside"].split(), re.compile(pattern, re.IGNORECASE), kept + REDACTED


_SHAPES = tuple(_shapes())


@lru_cache(maxsize=1024)
def _kind_of(name: str) -> str:
    """Which of the names a variable of the environment has; empty for none."""
    return next((kind for kind in ("secret", "address", "key") if _NAMES[kind].search(name)), "")


Scrub = Callable[[str], str]


def scrubber(*, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Scrub:
    """A function that takes keys out of texts, for many texts at once.

    Removed is what ``replacer`` removes, and whatever has the shape of a key or of an
    authorization header.
    """
    replaced = replacer(secrets=secrets, environ=environ)

    def clean(text: str) -> str:
        text = replaced(text)
        return _shaped_again(text) if len(text) <= _SHORT else _shaped(text)

    return clean


def replacer(*, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Scrub:
    """A function that takes known values out of texts: ``secrets``, the values of environment
    variables that are named like a key, and the passwords in addresses that stand in others.

    They are found as they are, and as they stand in JSON, in Python and in an address.
    """
    given = {each for each in secrets if _NAMES["placeholder"].fullmatch(each) is None}
    values = given | set(known_values(environ))
    several = {form for value in values for form in _forms(value) if len(form) >= _SECRET_LENGTH}
    known = sorted(several, key=len, reverse=True)
    short = [re.escape(v) for v in values if v in given and 0 < len(v) < _SECRET_LENGTH]
    longest_first = sorted(short, key=len, reverse=True)
    alone = re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})(?!\w)") if short else None

    def replaced(text: str) -> str:
        for value in known:
            text = text.replace(value, REDACTED)
        return text if alone is None else alone.sub(REDACTED, text)

    return replaced


def known_values(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The secrets that an environment holds; the process's by default."""
    source = os.environ if environ is None else environ
    values: set[str] = set()
    for name in source:
        value = source.get(name, "")
        match _kind_of(name):
            case "secret":
                is_none = any(
                    _NAMES[kind].fullmatch(value) for kind in ("called_so", "placeholder")
                )
                values.update(() if is_none else (value,))
            case "address":
                found = _PASSWORD_IN_ADDRESS.search(value) or _USER_IN_ADDRESS.search(value)
                values.update(found.groups() if found else ())
            case "key" if _DRAWN.fullmatch(value) and not _is_path(value):
                values.add(value)
    return tuple(sorted(value for value in values if len(value) >= _SECRET_LENGTH))


def _is_path(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):
        return False


def _forms(value: str) -> set[str]:
    """``value`` as it may stand in texts of other kinds."""
    encoded = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {value, value.strip(), repr(value)[1:-1], quote(value, safe=""), *encoded}


def _shaped(text: str) -> str:
    """``text`` without what has the shape of a key."""
    plain = text.casefold()
    for parts, shape, replacement in _SHAPES:
        if any(part in plain for part in parts):
            text = shape.sub(replacement, text)
    return text


# Names of fields and tools come again and again.
_SHORT = 40
_shaped_again = lru_cache(maxsize=4096)(_shaped)


def scrub(
    text: str, *, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> str:
    """``text`` without keys; see ``scrubber``."""
    return scrubber(secrets=secrets, environ=environ)(text)
