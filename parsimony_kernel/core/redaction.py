"""Keys and passwords, taken out of texts.

Known are the values of environment variables whose names end like a key's and whatever is handed
in; beside them goes everything that has the shape of a key, of an authorization header or of a
password that is given by name. A text that was clean stays as it was, to the letter.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from urllib.parse import quote

REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PWD"
    r"|(?:ACCESS|SECRET|PRIVATE|ACCOUNT|STORAGE|SIGNING|ENCRYPTION)_?KEY)$",
    re.IGNORECASE,
)
# A value that is only called so, such as PASSWORD=password, would spoil every text.
_IN_NAME_ONLY = re.compile(r"pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|keys?", re.IGNORECASE)
# What people give a local server that asks for some key.
_PLACEHOLDER = re.compile(
    r"(?:sk-)?(?:any(?:thing)?|dummy|empty|fake|foo|key|lm-?studio|local(?:host)?|n/a|none|null"
    r"|(?:no|not)[-_ ]?(?:key|needed|required|used)|ollama|placeholder|test|token|unused|vllm|x+)",
    re.IGNORECASE,
)
# A shorter value of the environment is no key: removing every "1" or "true" would spoil the text.
# A shorter one that was handed in is removed where it stands alone.
_SECRET_LENGTH = 6
_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s:/@]{0,200}:([^\s/@]{1,400})@")
# What may stand in a secret's place and is none: a placeholder, a constant, a name or a call.
_NO_SECRET = (
    r"(?!\[redacted\]|[$%{<*(]|(?:none|null|true|false|str|string|bytes|required|optional)\b"
    r"|(?:self|cls|os|args|opts|options|conf|config|cfg|settings|env|environ|params|request)\."
    r"|[a-z_]\w{0,40}[(\[]|\w{0,40}(?:password|passwd|passphrase|pwd|pass|pw|secret|token|key)\b)"
)
# A bracket or a comma belongs to a bare value only where the value goes on behind it.
# An ampersand ends it only before the next parameter, or as an entity of HTML.
_BARE = (
    r"(?:[^\s\"'\\&;,)}\]]|[,)}\]](?=[^\s\"'\\&;,)}\]])"
    r"|&(?![a-z][\w.-]{0,40}=|(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6});)(?=[^\s\"'\\]))"
)
_NAMED = (
    r"(?:password|passwd|passphrase|pwd|(?:client|app|shared|consumer)[-_ ]?secret"
    r"|secret[-_ ]?(?:access[-_ ]?)?key|(?:account|shared ?access|private|api|access)[-_ ]?key"
    r"|(?:access|refresh|auth|session|bearer|api|id)[-_]?token)"
)
_PROSE = (
    r"(?!(?:an?|and|are|argument|as|at|can|cannot|flag|for|from|has|if|in|is|may|must|needs?|not|on"
    r"|option|or|requires?|should|the|to|was|when|with)\b)"
)
_PARAMETER = (
    r"(?:auth|sig|signature|pass|secret|session(?:_?id)?|awsaccesskeyid"
    r"|x-(?:amz|goog)-(?:signature|credential|security-token))"
)


def _shape(parts: str, pattern: str, kept: str = "") -> tuple[list[str], re.Pattern[str], str]:
    """A shape of secrets, what of it stays, and parts in small letters without one of which it is
    not met: looking for those is cheap."""
    return parts.split("|"), re.compile(pattern, re.IGNORECASE), kept + REDACTED


# Nothing follows a repeat without an upper bound: each text is read in time linear in its length.
_SHAPES = (
    _shape(
        "bearer|basic|authorization",
        r"\b(authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token)\s{1,3}"
        # Without the header's name the words are English: a key has more than small letters.
        r"|(?:bearer|basic)\s{1,3}(?=[\w.~+/*=-]{0,80}(?:[\d=*]|(?-i:[a-z][A-Z]))))"
        r"[\w.~+/*=-]{6,}",
        r"\1",
    ),
    _shape(
        "sk-|sk_|xai|pplx|hf-|hf_|ghp|gho|github_pat|xox",
        r"\b(?:sk|gsk|xai|pplx|hf|ghp|gho|github_pat|xox[abeprs])[-_](?:[.-]{0,9}[\w*])+",
    ),
    _shape("aiza|akia|asia", r"(?-i:\b(?:AIza[\w-]{10,}|A[KS]IA[0-9A-Z]{12,}))"),
    _shape("eyj", r"(?-i:(?<![\w-])eyJ(?:\.?[\w-]){10,})"),
    _shape(
        "private key-----",
        r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)(?:(?!-----END)(?:.|\n))+",
        r"\1",
    ),
    _shape(
        "://",
        r"(://[^\s:/@]{0,200}:)(?!\[redacted\])(?=[^\s/]{1,400}@)(?:[^\s/@]|@(?=[^\s/]{0,400}@))+",
        r"\1",
    ),
    _shape(
        "hooks.slack.com|/api/webhooks/",
        r"(hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{6,25}/)[\w/-]{6,}",
        r"\1",
    ),
    _shape(":", r"(?<![0-9])(\d{6,12}:)[\w-]{30,}"),
    _shape(
        "cookie",
        r"(\b(?:set-)?cookie[\"']?:\s{0,3}[\"']?)(?:[\w.%!-]{1,80}=[^\s;\"']{1,4096}(?:;\s{0,2})?)+",
        r"\1",
    ),
    _shape("=", rf"([?&#](?:key|token|api_key)=){_NO_SECRET}[^\s\"'&,;)}}]{{6,}}", r"\1"),
    _shape("=", rf"([?&#]{_PARAMETER}=){_NO_SECRET}[^\s\"'&,;)}}]{{3,}}", r"\1"),
    _shape(
        "--",
        rf"(--(?:[a-z]{{1,20}}-)?(?:password|passwd|passphrase|secret|api-key|auth-token|access-token)"
        rf"(?:=|\s{{1,3}})(\\?[\"']?)){_NO_SECRET}{_PROSE}(?!-){_BARE}{{3,}}",
        r"\1",
    ),
    # A name and a literal: in quotes, or behind "=", or elsewhere where it has more than letters.
    _shape(
        "pass|pwd|secret|key|token",
        rf"({_NAMED}(?: provided)?)"
        rf"(?:((?:\\?[\"'])?\s{{0,3}}[:=]\s{{0,3}}[rbfu]?(\\?[\"'])){_NO_SECRET}"
        rf"(?![\s)\]}},;])(?:(?!\3)(?:\\.|.))+|(=){_NO_SECRET}{_BARE}{{3,}}"
        rf"|(\s{{0,3}}[:=]\s{{0,3}}){_NO_SECRET}(?=[\w./+-]{{0,80}}[\d!@#$%^*~?]){_BARE}{{4,}})",
        r"\1\2\4\5",
    ),
)


@lru_cache(maxsize=1024)
def _is_address(name: str) -> bool:
    return name.upper().endswith(("URL", "URI", "DSN", "PROXY"))


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


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
    variables whose name ends like a key's, and the passwords in addresses that stand in others.

    They are found as they are, and as they stand in JSON, in Python and in an address.
    """
    given = {each for each in secrets if _PLACEHOLDER.fullmatch(each) is None}
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
        if _is_secret(name):
            value = source.get(name, "")
            if not (_IN_NAME_ONLY.fullmatch(value) or _PLACEHOLDER.fullmatch(value)):
                values.add(value)
        elif _is_address(name) and (found := _PASSWORD_IN_ADDRESS.search(source.get(name, ""))):
            values.add(found[1])
    return tuple(sorted(value for value in values if len(value) >= _SECRET_LENGTH))


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
