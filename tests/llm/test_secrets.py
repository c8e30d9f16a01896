"""What counts as a secret in texts and in JSON, and that what only speaks of one stays."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

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


@pytest.mark.parametrize("name", ["Password 2", *SECRET_NAMES.split()])
def test_key_name_marks_its_value_secret(name: str) -> None:
    assert names_a_secret(name)
    assert is_secret(name, "hunter2")
    assert is_secret(name, 123456)


@pytest.mark.parametrize("name", OPEN_NAMES.split())
def test_similar_name_marks_nothing(name: str) -> None:
    assert not is_secret(name, "hunter2")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "object"),
        ("password", "str"),
        ("password", "int64"),
        ("password", ""),
        ("password", None),
        ("password", True),
        ("password", 3),
        ("token", "word"),
        ("tokens", "the longest word of all"),
    ],
)
def test_column_descriptions_are_no_secrets(name: str, value: object) -> None:
    assert not is_secret(name, value)


def test_random_token_is_a_secret() -> None:
    assert is_secret("token", "9f2c71aa03b44e1d8c")


HIDDEN: list[tuple[Any, Any]] = [
    ({"password": "hunter2"}, {"password": REDACTED}),
    ({"user": "u", "apiKey": "abc"}, {"user": "u", "apiKey": REDACTED}),
    ({"password": {"0": "a1", "1": "b2"}}, {"password": {"0": REDACTED, "1": REDACTED}}),
    ({"password": ["a1", None]}, {"password": [REDACTED, None]}),
    ({"token": ["word", "9f2c71aa03b44e1d8c"]}, {"token": ["word", REDACTED]}),
    (
        {"name": "db_password", "text": "'hunter2'", "type": "primitive"},
        {"name": "db_password", "text": REDACTED, "type": "primitive"},
    ),
    (
        {"columns": [{"name": "password", "dtype": "str", "samples": ["a", "b"]}]},
        {"columns": [{"name": "password", "dtype": "str", "samples": [REDACTED, REDACTED]}]},
    ),
    (("password=hunter2", 1, None), (f"password={REDACTED}", 1, None)),
    ({"given-one": 1}, {REDACTED: 1}),
    (
        {"spec": {"password": "x", "data": ["given-one"]}, "png_base64": "given-one"},
        {"spec": {"password": "x", "data": [REDACTED]}, "png_base64": "given-one"},
    ),
]


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
