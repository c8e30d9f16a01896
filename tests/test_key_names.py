"""The names under which keys stand in an environment: what reads one asks, what they hold leaves
no text."""

from pathlib import Path

import pytest

from parsimony_kernel.core.redaction import REDACTED, known_values, scrub
from parsimony_kernel.gate.preview import preview

DRAWN = "Zx81kqP0aW7rT5mN3bV9c"
NAMES = [
    "AZURE_OPENAI_KEY", "GITHUB_PAT", "DB_PASS", "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "COHERE_API_KEY", "HF_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN", "REPLICATE_API_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN",
    "CI_JOB_TOKEN", "NPM_TOKEN", "PYPI_TOKEN", "TWINE_PASSWORD", "DOCKER_PASSWORD",
    "DOCKERHUB_PASS", "SLACK_BOT_TOKEN", "SLACK_WEBHOOK_URL", "DISCORD_TOKEN",
    "TELEGRAM_BOT_TOKEN", "TWILIO_AUTH_TOKEN", "SENDGRID_API_KEY", "STRIPE_SECRET_KEY",
    "STRIPE_SK", "POSTGRES_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "MYSQL_ROOT_PASSWORD",
    "REDIS_PASSWORD", "REDIS_URL", "DATABASE_URL", "MONGODB_URI", "SQLALCHEMY_DATABASE_URI",
    "SNOWFLAKE_PASSWORD", "SNOWFLAKE_PRIVATE_KEY", "DATABRICKS_TOKEN", "KAGGLE_KEY",
    "WANDB_API_KEY", "MLFLOW_TRACKING_PASSWORD", "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "ARM_CLIENT_SECRET",
    "GCP_SERVICE_ACCOUNT_CREDENTIALS", "HEROKU_API_KEY", "CLOUDFLARE_API_TOKEN",
    "DATADOG_APP_KEY", "DD_API_KEY", "SENTRY_DSN", "SECRET_KEY", "JWT_SECRET", "ENCRYPTION_KEY",
    "FERNET_KEY", "SSH_PRIVATE_KEY", "BASIC_AUTH", "ADMIN_PASSPHRASE", "JUPYTER_TOKEN",
    "SERVICE_CREDENTIAL", "LDAP_BIND_PW",
]  # fmt: skip
# Addresses, of which only a part is secret, and what points to a file.
ADDRESSES = {
    "SLACK_WEBHOOK_URL": f"https://hooks.slack.com/services/T0/B0/{DRAWN}",
    "REDIS_URL": f"redis://:{DRAWN}@cache:6379/0",
    "DATABASE_URL": f"postgres://app:{DRAWN}@db/app",
    "MONGODB_URI": f"mongodb+srv://app:{DRAWN}@db/app",
    "SQLALCHEMY_DATABASE_URI": f"mysql://app:{DRAWN}@db/app",
    "SENTRY_DSN": f"https://{DRAWN}@o1.ingest.example/1",
}
NO_KEYS = {
    "AUTH_METHOD": "oauth",
    "SORT_KEY": "created_at",
    "GIT_AUTHOR_NAME": "ada99lovelace",
    "TOKENIZERS_PARALLELISM": "false-by-default1",
    "XAUTHORITY": "/root/.Xauthority1",
    "KEYBOARD_LAYOUT": "qwerty-us-104",
    "SSH_AUTH_SOCK": str(Path(__file__)),
    "MONKEY_BUSINESS": "bananas4all",
    "MAX_PWR_OUTPUT": "megawatts-900",
}


@pytest.mark.parametrize("name", NAMES)
def test_key_value_is_scrubbed(name: str) -> None:
    value = ADDRESSES.get(name, DRAWN)
    assert DRAWN not in scrub(f"connected with {value} at noon", environ={name: value})


@pytest.mark.parametrize("name", NAMES)
def test_reading_key_by_name_asks_first(name: str, tmp_path: Path) -> None:
    code = f"import os\nkey = os.environ[{name!r}]"
    assert [each.kind for each in preview(code, workspace=tmp_path)] == ["secret"]


@pytest.mark.parametrize(("name", "value"), NO_KEYS.items())
def test_lookalike_of_key_name_is_kept(name: str, value: str) -> None:
    assert known_values({name: value}) == ()
    assert REDACTED not in scrub(f"{value} it is", environ={name: value})
