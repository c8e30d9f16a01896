"""Templates of what people see; every inserted value is escaped."""

import functools
import unicodedata
from typing import Any


def rendered(name: str, **values: Any) -> str:
    """Render the template ``name``, a path in the package, with ``values``.

    Characters that XML cannot hold or that change the direction of writing become U+FFFD.
    """
    return str(_environment().get_template(name).render(values))


def macros(name: str, **values: Any) -> Any:
    """Return the macros of the template ``name`` by name; all of them can use ``values``."""
    return _environment().get_template(name, globals=values).module


@functools.cache
def _environment() -> Any:
    import jinja2  # deferred: most notebooks draw nothing

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("parsimony_kernel", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_plain,
    )
    made.filters["cut"] = cut
    return made


def _plain(value: Any) -> Any:
    if not isinstance(value, str) or str.replace(value, "\n", "").isprintable():
        return value
    return type(value)("".join(each if _is_sound(each) else "\ufffd" for each in value))


def _is_sound(char: str) -> bool:
    is_seen = char.isprintable() or unicodedata.category(char) == "Zs"
    return char in "\n\t" or (is_seen and char not in "\ufffe\uffff")


def cut(text: str, most: int) -> str:
    """Cut ``text`` to ``most`` columns; a wide character takes two."""
    taken = 0
    for place, each in enumerate(text):
        taken += 2 if unicodedata.east_asian_width(each) in "WF" else 1
        if taken > most:
            return text[: max(0, place - 1)] + "…"
    return text
