"""A key is found in whatever form it is written, and what only names one stays."""

import re
from typing import Any

import pytest

from parsimony_kernel.core import redaction
from parsimony_kernel.core.redaction import REDACTED, scrub

PARSER: Any = vars(re)["_parser"]


ENVIRON = {
    "OPENAI_API_KEY": "plain-old-key-value",
    "GITHUB_TOKEN": "tok-abcdef",
    "APP_SECRET": "hush-hush",
    "MY_TOKEN": "1",
    "HOME": "/home/someone",
}
LEAKS: list[tuple[str, str]] = [
    ("used plain-old-key-value here", f"used {REDACTED} here"),
    ("tok-abcdef and hush-hush", f"{REDACTED} and {REDACTED}"),
    ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {REDACTED}"),
    ("provided: sk-proj-abc123***wxyz.", f"provided: {REDACTED}."),
    ("key AIzaSyA1234567890abcdefg", f"key {REDACTED}"),
    ("with ghp_0123456789abcdefghijklmnop", f"with {REDACTED}"),
    ("?key=abcdef123456&x=1", f"?key={REDACTED}&x=1"),
    ('{"api_key": "abcdef123456"}', f'{{"api_key": "{REDACTED}"}}'),
    ("password=abcdef&x=1&y=2", f"password={REDACTED}&x=1&y=2"),
    ("&lt;password=abcdef&gt;", f"&lt;password={REDACTED}&gt;"),
    ("1 row in /home/someone, task-force", "1 row in /home/someone, task-force"),
    ("max_tokens=4096 is too large", "max_tokens=4096 is too large"),
]


@pytest.mark.parametrize(("text", "clean"), LEAKS)
def test_scrub_removes_keys_and_leaves_the_rest(text: str, clean: str) -> None:
    assert scrub(text, environ=ENVIRON) == clean
    assert scrub(clean, environ=ENVIRON) == clean


# Each holds "hunter2", in the places where secrets are written.
WRITTEN = [
    "password=hunter2",
    "password = hunter2",
    "password: hunter2",
    "password=hunter,2",
    "password = 'hunter2'",
    '{"password": "hunter2 in words"}',
    r"{\"password\": \"hunter2\", \"rows\": 5}",
    "connect(user='u', password='hunter2')",
    "PGPASSWORD=hunter2 psql",
    "Server=x;Uid=u;Pwd=hunter2;Database=d",
    "AccountKey=hunter2==;EndpointSuffix=x",
    "aws_secret_access_key = hunter2hunter2",
    '"access_token": "hunter2"',
    "mysql --password hunter2 -u x",
    "mysql --password=hunter2",
    "jdbc:postgresql://h/db?user=u&password=hunter2",
    "postgres://u:hunter2@h/db",
    "postgres://u:hun@ter2hunter2@h/db",
    "redis://:hunter2@h",
    "https://h/t?client_secret=hunter2&x=1",
    "https://h/cb#access_token=hunter2abc",
    "https://h/?auth=hunter2",
    "https://a.blob.core.windows.net/c?sv=1&sig=hunter2%3D",
    "https://b.s3/x?X-Amz-Credential=hunter2/2024/us&X-Amz-Signature=hunter2",
    "Cookie: session=hunter2; theme=hunter2",
    '{"Set-Cookie": "session=hunter2"}',
    "https://hooks.slack.com/services/T000/B000/hunter2",
    "https://api.telegram.org/bot123456789:AAhunter2hunter2hunter2hunter2hunter2/send",
    "Bearer hunter2hunter2",
    "x.eyJhunter2.eyJhunter2.hunter2",
    "password=abc&hunter2",
    "password=hunter2&3",
    "password = hunter2&",
    "Pwd=hun&&ter2;Database=d",
    "-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2\n-----END RSA PRIVATE KEY-----",
    r"-----BEGIN PRIVATE KEY-----\nhunter2",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_secret_is_found_in_every_notation(text: str) -> None:
    clean = scrub(text, environ={})
    assert REDACTED in clean
    assert "hun" not in clean
    assert "ter2" not in clean
    assert scrub(clean, environ={}) == clean


def open_repeats(parsed: Any, *, ends: bool = True) -> list[str]:
    """The repeats without an upper bound that something follows, of a parsed pattern."""
    found: list[str] = []
    items = list(parsed)
    for index, (kind, value) in enumerate(items):
        last = ends and index == len(items) - 1
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT":
                _, most, inner = value
                if str(most) == "MAXREPEAT" and not last:
                    found.append(str(inner))
                found += open_repeats(inner, ends=False)
            case "SUBPATTERN":
                found += open_repeats(value[-1], ends=last)
            case "BRANCH":
                found += [each for way in value[1] for each in open_repeats(way, ends=last)]
            case "ASSERT" | "ASSERT_NOT":
                found += open_repeats(value[1], ends=False)
    return found


@pytest.mark.parametrize("shape", [shape for _, shape, _ in redaction._SHAPES])
def test_scrub_time_is_linear(shape: re.Pattern[str]) -> None:
    """What fails after a repeat without a bound is tried again from every place in the repeat."""
    assert open_repeats(PARSER.parse(shape.pattern, shape.flags)) == []


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Bad key abc12.", f"Bad key {REDACTED}."),
        ("'abc12' and abc12", f"'{REDACTED}' and {REDACTED}"),
        ("abc123 and xabc12 and abc12_", "abc123 and xabc12 and abc12_"),
        ("a.b and a+b", f"{REDACTED} and a+b"),
    ],
)
def test_short_secret_is_removed_as_a_whole_word(text: str, clean: str) -> None:
    assert scrub(text, secrets=["abc12", "a.b", ""], environ={"SHORT_TOKEN": "and"}) == clean


@pytest.mark.parametrize("given", ["any", "none", "EMPTY", "ollama", "not-needed", "x"])
def test_placeholder_is_no_secret(given: str) -> None:
    """A local server wants some key; the words of a request would be lost with it."""
    text = f"is there {given} x or ollama in it, or none at all?"
    assert scrub(text, secrets=[given], environ={"OPENAI_API_KEY": given}) == text
