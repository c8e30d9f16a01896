"""Exceptions of the libraries themselves, built from an entry's facts as the library builds them.

``real`` is the dotted class. Where a library makes the exception out of a response, a document or
a statement, the entry gives that, and the library raises.
"""

import asyncio
import importlib
import json
import sqlite3
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pydantic
import pydantic_settings

URL = "https://api.example.com/v1"


def exception(facts: dict[str, Any]) -> Exception:
    """The exception that ``facts`` tell of, as its library makes it.

    Raises:
        LookupError: nothing was raised from what the entry gives.
    """
    name: str = facts["real"]
    package = name.partition(".")[0]
    makers: dict[str, Callable[[dict[str, Any]], Exception]] = {
        "openai": _openai,
        "httpx": _httpx,
        "requests": _requests,
        "aiohttp": _aiohttp,
        "botocore": _botocore,
    }
    raisers: dict[str, Callable[[dict[str, Any]], object]] = {
        "json": lambda facts: json.loads(facts["given"]),
        "sqlite3": _run_sql,
        "pydantic": _validate,
        "pydantic_settings": _settings,
        "jsonschema": _check_document,
    }
    if name in raisers:
        return _caught(raisers[name], facts)
    if facts.get("asyncio"):
        return _caught(lambda _: asyncio.run(_past_its_deadline()), facts)
    return makers.get(package, _called)(facts)


def _caught(raises: Callable[[dict[str, Any]], object], facts: dict[str, Any]) -> Exception:
    try:
        raises(facts)
    except Exception as exc:
        return exc
    raise LookupError(f"nothing was raised by {facts!r}; give what the library refuses")


def _class(facts: dict[str, Any]) -> Any:
    module, _, name = facts["real"].rpartition(".")
    return getattr(importlib.import_module(module), name)


def _called(facts: dict[str, Any]) -> Exception:
    made: Exception = _class(facts)(*facts.get("args", ()), **facts.get("kwargs", {}))
    return made


def _response(facts: dict[str, Any]) -> httpx.Response:
    return httpx.Response(
        facts["status"],
        headers=facts.get("headers"),
        json=facts.get("body"),
        request=httpx.Request("POST", URL),
    )


def _openai(facts: dict[str, Any]) -> Exception:
    made = _class(facts)
    request = httpx.Request("POST", URL)
    if "status" in facts:
        body = facts["body"]
        text = f"Error code: {facts['status']} - {body}"
        error: Exception = made(text, response=_response(facts), body=body["error"])
    elif facts["real"].endswith("APIError"):
        error = made(*facts["args"], request=request, body=facts["body"])
    elif facts["real"].endswith("OpenAIError"):
        error = made(*facts["args"])
    else:
        error = made(request=request)
    return error


def _httpx(facts: dict[str, Any]) -> Exception:
    made = _class(facts)
    if "status" in facts:
        answered: Exception = made(
            *facts["args"], request=httpx.Request("POST", URL), response=_response(facts)
        )
        return answered
    return _called(facts)


def _requests(facts: dict[str, Any]) -> Exception:
    error = _called(facts)
    if "status" in facts:
        response = importlib.import_module("requests").Response()
        response.status_code = facts["status"]
        error.response = response  # type: ignore[attr-defined]
    return error


def _aiohttp(facts: dict[str, Any]) -> Exception:
    made = _class(facts)
    if "status" in facts:
        request = SimpleNamespace(real_url=URL, url=URL, method="GET", headers={})
        answered: Exception = made(request, (), status=facts["status"], message=facts["message"])
        return answered
    if "errno" in facts:
        key = SimpleNamespace(host="127.0.0.1", port=5432, is_ssl=False, ssl=True)
        unreached: Exception = made(key, OSError(facts["errno"], facts["message"]))
        return unreached
    return _called(facts)


def _botocore(facts: dict[str, Any]) -> Exception:
    if "aws" not in facts:
        return _called(facts)
    answer = {
        "Error": {"Code": facts["aws"], "Message": facts["text"]},
        "ResponseMetadata": {"HTTPStatusCode": facts["http_aws"], "RetryAttempts": 4},
    }
    made: Exception = _class(facts)(answer, facts["operation"])
    return made


def _run_sql(facts: dict[str, Any]) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        for statement in facts["statements"]:
            connection.execute(statement)
    finally:
        connection.close()


def _check_document(facts: dict[str, Any]) -> None:
    importlib.import_module("jsonschema").validate(facts["given"], facts["schema"])


_TYPES = {"str": str, "int": int, "float": float}


def _validate(facts: dict[str, Any]) -> None:
    fields: dict[str, Any] = {name: (_TYPES[kind], ...) for name, kind in facts["fields"].items()}
    pydantic.create_model(facts["model"], **fields).model_validate(facts["given"])


def _settings(facts: dict[str, Any]) -> None:
    fields: dict[str, Any] = {name: (_TYPES[kind], ...) for name, kind in facts["fields"].items()}
    made = pydantic.create_model(facts["model"], __base__=pydantic_settings.BaseSettings, **fields)
    made()


async def _past_its_deadline() -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()
