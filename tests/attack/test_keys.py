"""Keys under sixty usual names, in the environment of a run that prints and raises all of them."""

import json
import secrets
import string
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, call
from tests.scenarios.loops import gather

SERVICES = (
    "OPENAI ANTHROPIC GEMINI MISTRAL GROQ COHERE TOGETHER DEEPSEEK PERPLEXITY FIREWORKS "
    "VOYAGE PINECONE TAVILY SERPER NOTION"
)
OTHERS = (
    "AZURE_OPENAI_KEY AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GITHUB_TOKEN GITHUB_PAT GH_TOKEN "
    "GITLAB_TOKEN GITLAB_PRIVATE_TOKEN BITBUCKET_APP_PASSWORD HF_TOKEN HUGGING_FACE_HUB_TOKEN "
    "REPLICATE_API_TOKEN WANDB_API_KEY COMET_API_KEY NEPTUNE_API_TOKEN KAGGLE_KEY DB_PASS "
    "DB_PASSWORD PGPASSWORD MYSQL_PWD MYSQL_ROOT_PASSWORD REDIS_PASSWORD MONGO_PASSWORD "
    "SNOWFLAKE_PASSWORD DATABRICKS_TOKEN FRED_API_KEY QUANDL_API_KEY ALPHAVANTAGE_API_KEY "
    "SLACK_BOT_TOKEN SLACK_SIGNING_SECRET DISCORD_TOKEN TELEGRAM_BOT_TOKEN TWILIO_AUTH_TOKEN "
    "SENDGRID_API_KEY STRIPE_SECRET_KEY PYPI_TOKEN NPM_TOKEN DOCKER_PASSWORD VAULT_TOKEN "
    "JWT_SECRET DJANGO_SECRET_KEY AZURE_CLIENT_SECRET SERVICE_CREDENTIAL SSH_PASSPHRASE "
    "DEPLOY_CREDENTIALS"
)
NAMES = [*(f"{service}_API_KEY" for service in SERVICES.split()), *OTHERS.split()]


def drawn() -> str:
    """A value that no shape of a known key gives away."""
    letters = string.ascii_letters + string.digits
    return "q" + "".join(secrets.choice(letters) for _ in range(20)) + "7"


async def test_environment_keys_are_neither_sent_nor_stored(
    scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(NAMES) == len(set(NAMES)) == 60
    keys = {name: drawn() for name in NAMES}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    executor = CodeExecutor(cwd=str(tmp_path))
    await executor.execute(f"held = {list(keys.values())!r}")
    model = ScriptedModel(
        [
            call("run_code", code="for each in held: print('found', each)"),
            call("run_code", code="held[:30]"),
            call("run_code", code="held[30:]"),
            call("run_code", code="raise ValueError(' '.join(held))"),
            call("return_done", summary=" ".join(keys.values())),
        ]
    )
    session = scripted(executor=executor, model=model, environ=keys)
    request = "use " + " ".join(keys.values())
    options = TurnOptions(approve=Approval.auto)
    events = await gather(session.turn(request, cell_key="c", options=options))
    assert isinstance(events[-1], RunCompleted)
    session.close()
    model.assert_exhausted()
    sent = json.dumps([list(each.messages) for each in model.requests])
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name, value in keys.items() if value in sent] == []
    assert [name for name, value in keys.items() if value.encode() in written] == []
    assert [name for name, value in keys.items() if value in repr(events)] == []
