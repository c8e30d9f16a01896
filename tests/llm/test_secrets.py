"""What counts as a secret in texts and in JSON, and that what only speaks of one stays."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.core import redaction
from parsimony_kernel.core.redaction import REDACTED, scrub
from parsimony_kernel.llm.secrets import Secrets, is_secret, names_a_secret

ENVIRON = {
    "WAREHOUSE_TOKEN": 'quo"ted & länger',
    "DB_PWD": "shorter-one",
    "PWD": "/home/someone",
    "APP_PASSWORD": "password",
    "DATABASE_URL": "postgresql://reader:in-address@db.example/x",
    "HOME": "/home/someone",
}
SECRETS = Secrets(ENVIRON, ["given-one"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('it is quo"ted & länger.', f"it is {REDACTED}."),
        (json.dumps({"k": 'quo"ted & länger'}), f'{{"k": "{REDACTED}"}}'),
        (repr('quo"ted & länger'), f"'{REDACTED}'"),
        ("/x?k=quo%22ted%20%26%20l%C3%A4nger&n=1", f"/x?k={REDACTED}&n=1"),
        ("shorter-one and given-one", f"{REDACTED} and {REDACTED}"),
        ("the word in-address alone", f"the word {REDACTED} alone"),
        ("a password in /home/someone", "a password in /home/someone"),
    ],
)
def test_known_secret_is_found_in_every_form(text: str, clean: str) -> None:
    assert SECRETS.clean(text) == clean
    assert SECRETS.of_cleaned(text) == clean
    assert SECRETS.clean(clean) == clean


def test_model_secrets_are_known() -> None:
    models = [SimpleNamespace(secrets=("first-own",)), SimpleNamespace(secrets=("second-own",))]
    assert Secrets.of([*models, object()], {}).clean("first-own, second-own, third") == (
        f"{REDACTED}, {REDACTED}, third"
    )


SECRET_NAMES = """password db_password dbPassword passwords api_key apiKey API-Key client_secret
access_token Authorization AWS_SECRET_ACCESS_KEY private_key"""
OPEN_NAMES = """key sort_key primary_key token n_tokens secretary passwordless bypass max_tokens
password_length token_count keyboard monkey compass author"""
SECRET = [*SECRET_NAMES.split(), "Password 2"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *((name, "hunter2", True) for name in SECRET),
        ("password", 123456, True),
        *((name, "hunter2", False) for name in OPEN_NAMES.split()),
        # A description of a column.
        *(("password", value, False) for value in ("object", "str", "int64", "", None, True, 3)),
        ("token", "word", False),
        ("tokens", "the longest word of all", False),
        ("token", "9f2c71aa03b44e1d8c", True),
    ],
)
def test_value_is_secret_by_its_name_or_itself(name: str, value: object, expected: bool) -> None:
    assert is_secret(name, value) is expected
    assert names_a_secret(name) is (name in SECRET)


HIDDEN: list[tuple[Any, Any]] = [
    ({"password": "hunter2"}, {"password": REDACTED}),
    ({"user": "u", "apiKey": "abc"}, {"user": "u", "apiKey": REDACTED}),
    ({"password": {"0": "a1", "1": "b2"}}, {"password": {"0": REDACTED, "1": REDACTED}}),
    ({"password": ["a1", None]}, {"password": [REDACTED, None]}),
    ({"token": ["word", "9f2c71aa03b44e1d8c"]}, {"token": ["word", REDACTED]}),
    ({"name": "db_password", "text": "'hunter2'", "type": "primitive"},
     {"name": "db_password", "text": REDACTED, "type": "primitive"}),
    ({"columns": [{"name": "password", "dtype": "str", "samples": ["a", "b"]}]},
     {"columns": [{"name": "password", "dtype": "str", "samples": [REDACTED, REDACTED]}]}),
    (("password=hunter2", 1, None), (f"password={REDACTED}", 1, None)),
    ({"given-one": 1}, {REDACTED: 1}),
    ({"spec": {"password": "x", "data": ["given-one"]}, "png_base64": "given-one"},
     {"spec": {"password": "x", "data": [REDACTED]}, "png_base64": "given-one"}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "cleaned"), HIDDEN)
def test_json_value_is_judged_by_its_key(value: Any, cleaned: Any) -> None:
    assert SECRETS.of_json(value) == cleaned
    assert SECRETS.of_json(cleaned) == cleaned


def test_schema_descriptions_are_kept() -> None:
    schema = {"properties": {"password": {"type": "string", "description": "The one of the DB"}}}
    assert SECRETS.of_prose(schema) == schema
    assert SECRETS.of_prose({"description": "given-one"}) == {"description": REDACTED}


def test_clean_arguments_stay_byte_identical() -> None:
    text = '{ "code":"x = 1",\n  "n": 1.0 }'
    assert SECRETS.of_arguments(text) == text


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"code": "password = 'hun\\'ter2'"}),
        json.dumps({"code": 'key = "quo\\"ted & länger"; s = "given-one hunter2"'}).replace(
            "hunter2", ""
        ),
        json.dumps({"password": "hunter2"}),
        '{"code": "password = \'hunter2\'',
    ],
)
def test_arguments_are_scrubbed_by_meaning(text: str) -> None:
    cleaned = SECRETS.of_arguments(text)
    assert REDACTED in cleaned
    assert "ter2" not in cleaned
    assert "given-one" not in cleaned
    assert SECRETS.of_arguments(cleaned) == cleaned


PLAIN = [
    'df["token"].value_counts()',
    "columns: id, token, password, sig",
    "sig = 3",
    "?x=1&sigma=3",
    "sort(key=score, token=word)",
    "connect(password=db_password)",
    "password=args.password",
    "password=${PW}",
    'password=f"{x}"',
    'password = os.environ["PGPASSWORD"]',
    "password = None",
    '"password": null',
    "def login(user: str, password: str) -> None:",
    "password: must be at least 8 characters",
    "Password: required",
    "use --password to set it",
    'api_key=os.getenv("K")',
    "cookie: a small file",
    "https://host:8080/a@b",
    "df.sort_values(key=lambda s: s.str.lower())",
    'df.groupby("password")["n"].count()',
    "tokens = [t for t in text.split() if t]",
    "token: str = tokens[0]",
    "for key, value in d.items(): print(key, value)",
    "password = getpass.getpass()",
    'password = os.environ.get("DB_PASSWORD", "")',
    "sqlalchemy.create_engine(url)",
    "merge(left, right, on='api_key', how='left')",
    "assert secret is None",
    "The token count is 1,234 and the key figure is 5.6 %.",
    "Which column holds the password, or is there none?",
    "Sign in with your password and choose a region.",
    "Basic statistics by region; bearer bonds only.",
    "https://example.org/a?page=2&sort=key",
    "git@github.com:owner/name.git",
    "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "run 550e8400-e29b-41d4-a716-446655440000 at 12:30:00",
    "user@example.org wrote at https://example.org:8080/x",
    "Mean(price) = 12.5; key: region; n = 10",
    "def connect(user, password=None, *, token=None): ...",
    "{'key': 'value', 'token': 'noun'}",
    'pd.read_csv("keys_and_tokens.csv", sep=";")',
]


@pytest.mark.parametrize("text", PLAIN)
def test_code_and_prose_about_keys_are_kept(text: str) -> None:
    secrets = Secrets({})
    assert secrets.clean(text) == scrub(text, environ={}) == text
    assert secrets.of_json({"code": text}) == {"code": text}
    assert not secrets.are_in(text)


# A key is found in whatever form it is written, and what only names one stays.


PARSER: Any = vars(re)["_parser"]


KEYS_SET = {
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
    assert scrub(text, environ=KEYS_SET) == clean
    assert scrub(clean, environ=KEYS_SET) == clean


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
