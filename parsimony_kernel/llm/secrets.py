"""Redaction of secrets in a run's texts.

There is one ``Secrets`` per run, built from the environment and the secrets of its models. Text is
redacted when it enters a transcript, an event or a file, not again for each request, so that sent
messages stay the same byte for byte. Redaction is idempotent.
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

# The keys whose values belong to the "name" beside them: of a variable, a column or a field.
_VALUES = frozenset({"text", "value", "values", "samples", "default", "preview"})
_PIXELS = "png_base64"
# Chart source: only known secrets are removed, and none are guessed.
_PICTURES = frozenset({"svg", "spec"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMED = re.compile(
    r"(?:password|passwd|passphrase|passwort|kennwort"
    r"|(?:^|[\W_])(?:pwd|secret|authorization"
    r"|(?:api|access|private|secret|account|signing|encryption)[\W_]?key"
    r"|(?:access|refresh|auth|session|bearer|api|csrf)[\W_]?token))s?[\W_]?\d{0,2}$",
    re.IGNORECASE,
)
# Such a name may also hold words, such as the tokens of a text.
_AMBIGUOUS = re.compile(r"(?:^|[\W_])tokens?$", re.IGNORECASE)
_RANDOM = re.compile(r"(?=\S{0,400}\d)(?=\S{0,400}[A-Za-z])\S{16,400}")
_WORDS = re.compile(
    r"str|string|object|bytes|bool|category|u?int\d*|float\d*|number|integer|datetime64.{0,40}"
    r"|none|null|nan|true|false|required|optional",
    re.IGNORECASE,
)
# A smaller number beside the name of a column is a count.
_LEAST = 1_000
# Events that the loop builds from redacted parts, or that hold names only.
_CLEAN = (ToolEvent, ToolResultObserved, StateSnapshot)
# Identifiers, which are used for lookup, and the suspension record, which is redacted before it is
# sealed.
_NAMES = "type run_id tool_name tool_call_id logical_id content_sha path page suspension_record"
_IDENTITIES = frozenset(_NAMES.split())


@lru_cache(maxsize=4096)
def names_a_secret(name: str) -> bool:
    """Whether ``name`` denotes a secret, such as ``db_password``."""
    return _NAMED.search(_CAMEL.sub("_", name)) is not None


def is_secret(name: str, value: Any) -> bool:
    """Whether ``value`` under ``name`` is a secret: text or a number, but no type or keyword."""
    # By type and ``str.__str__``, since a foreign value can override its own methods.
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
    """Return the name of the value under ``key``: the key, or the ``"name"`` beside it."""
    named = beside.get("name") if key in _VALUES else None
    return named if isinstance(named, str) else key


class Secrets:
    """Redactor of keys, tokens and passwords in text and JSON.

    Args:
        environ: the environment with secret variables; the process's by default.
        values: further secret values.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, values: Iterable[str] = ()
    ) -> None:
        source = os.environ if environ is None else environ
        given = tuple(values)
        self.values = tuple(sorted({*given, *known_values(source)}))
        # Removes known values and everything that looks like a secret.
        self.clean: Scrub = scrubber(secrets=given, environ=source)
        self._replaced = replacer(secrets=given, environ=source)

    @classmethod
    def of(cls, models: Iterable[object], environ: Mapping[str, str] | None = None) -> "Secrets":
        """Create one with the secrets of ``models``."""
        return cls(environ, (value for model in models for value in secrets_of(model)))

    def are_in(self, text: str) -> bool:
        """Whether ``text`` holds a secret."""
        return self.clean(text) != text

    def of_json(self, value: Any) -> Any:
        """Redact JSON; a value is also judged by its name."""
        return _each(value, self.clean, self._under)

    def of_arguments(self, text: str) -> str:
        """Redact the arguments of a call: the JSON of an object, if the model wrote it correctly.

        They stay the same byte for byte if they hold no secret.
        """
        try:
            given = json.loads(text)
            cleaned = self.of_json(given)
        except (ValueError, RecursionError):
            return self.clean(text)
        return text if cleaned == given else json.dumps(cleaned, ensure_ascii=False)

    def of_prose(self, value: Any) -> Any:
        """Redact the texts in ``value`` without judging them by their names.

        For values that describe their names, as in a schema.
        """
        return _each(value, self.clean)

    def of_cleaned(self, value: Any) -> Any:
        """Remove the known secrets from a value that was redacted elsewhere."""
        return _each(value, self._replaced) if self.values else value

    def of_failure(self, failure: Failure) -> Failure:
        """Copy ``failure`` with its text and metadata redacted."""
        fields = {name: getattr(failure, name) for name in ("explanation", "blockers", "metadata")}
        return replace(failure, **self.of_json(fields))

    def of_event(self, event: AgentEvent) -> AgentEvent:
        """Copy ``event`` with its text fields redacted."""
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
    """Redact the texts in ``value``; ``under``, if given, redacts values by name."""
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
    # Unchanged text stays the same object, which may be an enum member.
    cleaned = clean(value)
    return value if cleaned == value else cleaned
