"""What must stand in no text, for as long as a run lasts.

One ``Secrets`` per run, made of the environment and of what its models keep to themselves. Texts
are cleaned when they enter a transcript, an event or a file, never again at each request, so that
what was sent stays the same byte for byte. Cleaning twice gives what cleaning once gave.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from parsimony_kernel.core.events import AgentEvent, StateSnapshot, ToolEvent, ToolResultObserved
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.redaction import REDACTED, Scrub, known_values, replacer, scrubber
from parsimony_kernel.llm.coerce import secrets_of

# What stands beside a "name", of a variable, a column or a field.
_VALUES = frozenset({"text", "value", "values", "samples", "default", "preview"})
_PIXELS = "png_base64"
# A picture's own language: what is known is taken out, and nothing is guessed.
_PICTURES = frozenset({"svg", "spec"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMED = re.compile(
    r"(?:password|passwd|passphrase|passwort|kennwort"
    r"|(?:^|[\W_])(?:pwd|secret|authorization"
    r"|(?:api|access|private|secret|account|signing|encryption)[\W_]?key"
    r"|(?:access|refresh|auth|session|bearer|api|csrf)[\W_]?token))s?[\W_]?\d{0,2}$",
    re.IGNORECASE,
)
# Under such a name stand words too: of a text, in the order of its tokens.
_AMBIGUOUS = re.compile(r"(?:^|[\W_])tokens?$", re.IGNORECASE)
_RANDOM = re.compile(r"(?=\S{0,400}\d)(?=\S{0,400}[A-Za-z])\S{16,400}")
_WORDS = re.compile(
    r"str|string|object|bytes|bool|category|u?int\d*|float\d*|number|integer|datetime64.{0,40}"
    r"|none|null|nan|true|false|required|optional",
    re.IGNORECASE,
)
# A smaller number beside the name of a column is how many there are.
_LEAST = 1_000
# What the loop has made of cleaned parts, and what holds many names and no words.
_CLEAN = (ToolEvent, ToolResultObserved, StateSnapshot)
# What names a thing, and is looked up by; a sealed record is cleaned before it is sealed.
_NAMES = "type run_id tool_name tool_call_id logical_id content_sha path page suspension_record"
_IDENTITIES = frozenset(_NAMES.split())


@lru_cache(maxsize=4096)
def names_a_secret(name: str) -> bool:
    """Whether what is called ``name`` is kept from others, such as ``db_password``."""
    return _NAMED.search(_CAMEL.sub("_", name)) is not None


def is_secret(name: str, value: Any) -> bool:
    """Whether ``value`` under ``name`` is a secret: text or a number, and no mere description."""
    # Asked of the class: a foreign value may say anything of itself.
    kind = type(value)
    if issubclass(kind, str):
        text = str.__str__(value)
        return bool(text) and _names(name, text)
    is_number = issubclass(kind, int | float) and kind is not bool
    return is_number and names_a_secret(name) and abs(value) >= _LEAST


def _names(name: str, text: str) -> bool:
    if names_a_secret(name):
        return _WORDS.fullmatch(text) is None
    return _AMBIGUOUS.search(name) is not None and _RANDOM.fullmatch(text) is not None


def name_of(key: Any, beside: Mapping[Any, Any]) -> Any:
    """What the value under ``key`` is called: its key, or the ``"name"`` that stands beside it."""
    named = beside.get("name") if key in _VALUES else None
    return named if isinstance(named, str) else key


class Secrets:
    """Takes keys, tokens and passwords out of texts and of JSON.

    Args:
        environ: where the values of secret variables stand; the process's by default.
        values: others that no text may show.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, values: Iterable[str] = ()
    ) -> None:
        source = os.environ if environ is None else environ
        given = tuple(values)
        self.values = tuple(sorted({*given, *known_values(source)}))
        # A text without what is known, and without what is written like a secret.
        self.clean: Scrub = scrubber(secrets=given, environ=source)
        self._replaced = replacer(secrets=given, environ=source)

    @classmethod
    def of(cls, models: Iterable[object], environ: Mapping[str, str] | None = None) -> "Secrets":
        """With the values that ``models`` want in no text."""
        return cls(environ, (value for model in models for value in secrets_of(model)))

    def are_in(self, text: str) -> bool:
        """Whether ``clean`` would take something out of ``text``."""
        return self.clean(text) != text

    def of_json(self, value: Any) -> Any:
        """``value``, which is JSON, cleaned; a value goes by the name that it stands under too."""
        return _each(value, self.clean, self._under)

    def of_arguments(self, text: str) -> str:
        """A call's arguments, which are the JSON of an object if the model wrote them well.

        They stay as they are, byte for byte, where nothing is to be hidden.
        """
        try:
            given = json.loads(text)
            cleaned = self.of_json(given)
        except (ValueError, RecursionError):
            return self.clean(text)
        return text if cleaned == given else json.dumps(cleaned, ensure_ascii=False)

    def of_prose(self, value: Any) -> Any:
        """The texts in ``value`` cleaned, each by itself: what stands under a name describes it,
        as in a schema."""
        return _each(value, self.clean)

    def of_cleaned(self, value: Any) -> Any:
        """``value``, which was cleaned elsewhere, without what is known here."""
        return _each(value, self._replaced) if self.values else value

    def of_failure(self, failure: Failure) -> Failure:
        """Copy ``failure`` with its words and its metadata cleaned."""
        told = {name: getattr(failure, name) for name in ("explanation", "blockers", "metadata")}
        return replace(failure, **self.of_json(told))

    def of_event(self, event: AgentEvent) -> AgentEvent:
        """Copy ``event`` with its fields cleaned, as far as they are words."""
        cleaned = {
            name: self.of_failure(value) if isinstance(value, Failure) else self.of_json(value)
            for name, value in (() if isinstance(event, _CLEAN) else event)
            if name not in _IDENTITIES
        }
        return event.model_copy(update=cleaned)

    def _under(self, name: Any, value: Any) -> Any:
        if name == _PIXELS:
            return value
        if name in _PICTURES:
            return _each(value, self._replaced)
        if not isinstance(name, str):
            return self.of_json(value)
        match value:
            case Mapping() if names_a_secret(name):
                return {key: self._under(name, item) for key, item in value.items()}
            case list() | tuple() if names_a_secret(name) or _AMBIGUOUS.search(name):
                return type(value)(self._under(name, item) for item in value)
        return REDACTED if is_secret(name, value) else self.of_json(value)


def _each(value: Any, clean: Scrub, under: Callable[[Any, Any], Any] | None = None) -> Any:
    """The texts in ``value`` cleaned; what stands under a name, by ``under`` where it is given."""
    match value:
        case str():
            return _or_same(value, clean)
        case Mapping() if under is not None:
            return {_or_same(k, clean): under(name_of(k, value), item) for k, item in value.items()}
        case Mapping():
            return {
                _or_same(k, clean): item if k == _PIXELS else _each(item, clean)
                for k, item in value.items()
            }
        case list() | tuple():
            cleaned = [_each(item, clean, under) for item in value]
            return cleaned if isinstance(value, list) else tuple(cleaned)
    return value


def _or_same(value: Any, clean: Scrub) -> Any:
    if not isinstance(value, str):
        return value
    # The very object, which may be a member of an enumeration.
    cleaned = clean(value)
    return value if cleaned == value else cleaned
