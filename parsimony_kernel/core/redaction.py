"""Redact keys and passwords from text.

Known secrets are the values passed in and those of environment variables with names that end like a
key's. Text with the shape of a key, of an authorization header or of a named password is redacted
as well. Text without secrets is returned unchanged.
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
# Names of environment variables that hold a key: one list, both for what code may read without
# approval and for what is redacted.
NAMES_A_KEY = _NAMES["key"]

# A shorter environment value is not a key: removing every "1" or "true" would spoil the text. A
# shorter secret that was passed in is removed only as a whole word.
_SECRET_LENGTH = 6
# Other key-like names may also hold settings, such as AUTH_METHOD=oauth.
_DRAWN = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])(?!\S*://)\S{8,}")
_USER_IN_ADDRESS = re.compile(r"://([^\s:/@]{16,400})@")
_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s:/@]{0,200}:([^\s/@]{1,400})@")


def _shapes() -> Iterator[tuple[list[str], re.Pattern[str], str]]:
    """Yield the shapes of secrets.

    Each has the parts of which any match contains at least one, the pattern, and its replacement.
    """
    for shape in _TABLE["shape"]:
        beside, pattern = shape["beside"].split(), shape["pattern"]
        parts = {**_TABLE["parts"], "beside": "|".join(map(re.escape, beside))}
        for name, part in parts.items():
            pattern = pattern.replace(f"{{{name}}}", part)
        compiled = re.compile(pattern, re.IGNORECASE)
        yield [part.casefold() for part in beside], compiled, shape.get("kept", "") + REDACTED


_SHAPES = tuple(_shapes())


@lru_cache(maxsize=1024)
def _kind_of(name: str) -> str:
    """Return the kind of name that an environment variable has; empty for none."""
    return next((kind for kind in ("secret", "address", "key") if _NAMES[kind].search(name)), "")


Scrub = Callable[[str], str]


def scrubber(*, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Scrub:
    """Return a function that redacts keys, for use on many texts.

    It removes what ``replacer`` removes, and anything with the shape of a key or of an
    authorization header.
    """
    replaced = replacer(secrets=secrets, environ=environ)

    def clean(text: str) -> str:
        text = replaced(text)
        return _shaped_again(text) if len(text) <= _SHORT else _shaped(text)

    return clean


def replacer(*, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Scrub:
    """Return a function that redacts known values.

    These are ``secrets``, the values of environment variables named like a key, and the passwords
    in addresses held by others. They are found as they are, and as escaped in JSON, in Python and
    in addresses.
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
    """Return the secrets in an environment, by default the process's."""
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
    """Return ``value`` in each escaped form that texts may have."""
    encoded = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {value, value.strip(), repr(value)[1:-1], quote(value, safe=""), *encoded}


def _shaped(text: str) -> str:
    """Redact everything in ``text`` with the shape of a key."""
    plain = text.casefold()
    for parts, shape, replacement in _SHAPES:
        if any(part in plain for part in parts):
            text = shape.sub(replacement, text)
    return text


# Cached, since names of fields and tools recur.
_SHORT = 40
_shaped_again = lru_cache(maxsize=4096)(_shaped)


def scrub(
    text: str, *, secrets: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> str:
    """Redact ``text``; see ``scrubber``."""
    return scrubber(secrets=secrets, environ=environ)(text)
