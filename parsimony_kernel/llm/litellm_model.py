"""Models of any provider, through litellm.

litellm takes seconds to import, so it is imported on the first request, in a worker thread.
Problems that can be detected without it (a missing key, an unsupported release) are reported
before. Its functions are looked up on the module at each call.
"""

import asyncio
import contextlib
import importlib
import importlib.metadata
import json
import logging
import os
import pickle
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.chat import Completion, Delta, Message, ModelRequest, Usage
from parsimony_kernel.core.kinds import Failure, FailureRaised
from parsimony_kernel.core.text import from_json
from parsimony_kernel.limits.budget import counted, usage_by_size, usd
from parsimony_kernel.llm import chokepoint, extras, providers
from parsimony_kernel.llm.coerce import choice_of, prose
from parsimony_kernel.llm.faults import gap

# The releases tested with tools; keep pyproject.toml in step. 1.106 fails every call with tools
# unless the package mcp is installed; later ones don't.
TRIED = ">=1.100,<=1.110.2,!=1.106.*"
_COMPROMISED = ("1.82.7", "1.82.8")

# litellm's timeout comes after the chokepoint's, which has the better message.
_PATIENCE = 2.0
# Modules that the first request would otherwise import on the event loop.
_FIRST_USED = (
    "openai.resources", "openai.lib.streaming.chat", "anyio._backends._asyncio",
    "litellm._service_logger", "litellm.types.integrations.prometheus",
    "litellm.llms.openai_like.dynamic_config", "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.litellm_core_utils.default_encoding",
    "litellm.types.litellm_core_utils.streaming_chunk_builder_utils",
)  # fmt: skip
# Whether the current request of openai's client was made by this module.
_is_ours: ContextVar[bool] = ContextVar("parsimony_request", default=False)
# litellm's attributes for listeners to its answers.
_LISTENERS = (
    "callbacks", "success_callback", "failure_callback", "_async_success_callback",
    "_async_failure_callback", "cache", "post_call_rules",
)  # fmt: skip
# The attributes of litellm's stream for the provider's own finish reason.
_ENDS = ("received_finish_reason", "intermittent_finish_reason")
# Providers refuse a limit above the model's maximum. Every model in use can write this much.
_EVERY_MODEL_WRITES = 4_096


class StreamBroken(Exception):
    """The stream ended without the provider's finish reason."""


class LiteLLMModel:
    """A model called through litellm.

    Args:
        config: keyword arguments of ``litellm.acompletion``: ``model`` (required, written
            ``provider/model``), and as needed ``api_key``, ``api_base``, ``temperature`` ….
        environ: the environment for keys and addresses.

    Raises:
        ValueError: ``config`` names no model.
    """

    def __init__(self, config: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> None:
        model = config.get("model")
        if not isinstance(model, str) or not model.strip():
            raise ValueError(
                f"the configuration names no model: config['model'] is {model!r}; "
                "write for instance {'model': 'openai/gpt-5'}"
            )
        self._config = dict(config)
        self._environ = environ
        self._base = providers.base_of(self._config, environ)
        self._refused: list[extras.Extra] = []
        # Memos of litellm's slow look-ups, which every request needs.
        self._sees: bool | None = None
        self._has_no_price = False

    def __repr__(self) -> str:
        return f"LiteLLMModel({self.name!r})"

    @property
    def name(self) -> str:
        return str(self._config["model"])

    @property
    def service(self) -> str:
        """The model and its address, since the same model may be up at another address."""
        return f"{self.name} at {self._base}" if self._base else self.name

    @property
    def max_answer_tokens(self) -> int | None:
        """The longest answer that the configuration allows."""
        limit = self._config.get("max_completion_tokens") or self._config.get("max_tokens")
        return limit if isinstance(limit, int) and limit > 0 else None

    @property
    def context_window(self) -> int | None:
        """The most tokens of a request, if litellm is imported and knows it."""
        most = self._facts().get("max_input_tokens")
        return most if isinstance(most, int) and most > 0 else None

    @property
    def sees_pictures(self) -> bool:
        """Whether an imported litellm says so, and the model has refused no picture yet."""
        litellm: Any = sys.modules.get("litellm")
        if self._sees is None and litellm is not None:
            # litellm doesn't know every model, and may be only partly imported.
            with contextlib.suppress(Exception):  # boundary: tool - litellm
                self._sees = bool(litellm.supports_vision(model=self.name))
        return bool(self._sees) and extras.PICTURES not in self._refused

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        """Estimate the cost of a request from litellm's price map.

        Returns ``None`` if the price is unknown. Raises ``FailureRaised`` if litellm can't be used.
        """
        return self._price(await _load(), Usage(prompt_tokens, answer_tokens))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret values of the configuration and the environment."""
        return providers.secrets_of(self._config, self._environ)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Answer ``request`` in one attempt, streaming if the provider does."""
        self._refuse_live_call()
        missing = providers.missing_variable(self._config, self._environ)
        # If litellm was imported already, a key may have been set on it, so the request is tried.
        if missing and "litellm" not in sys.modules:
            raise FailureRaised(no_key(self.name, missing))
        litellm = await _load()
        yield Delta()  # the import doesn't count as the model's silence
        try:
            response = await self._response(litellm, request)
        except Exception as exc:
            if missing and (getattr(exc, "status_code", None) == 401 or missing in str(exc)):
                raise FailureRaised(no_key(self.name, missing)) from exc
            raise
        chunks: list[Any] = []
        behind = _behind(litellm, response)
        if not isinstance(getattr(response, "choices", None), list | tuple):
            try:
                async with contextlib.aclosing(_pieces(litellm, response, behind)) as pieces:
                    async for chunk in pieces:
                        chunks.append(chunk)
                        yield _delta(chunk)
            except Exception:  # boundary: tool - the provider's stream, behind a whole answer
                # An error after the complete answer, such as an invalid usage, doesn't discard an
                # answer that was paid for.
                if not _said_end(response):
                    raise
            finally:
                await chokepoint.close(response)
            if _said_end(response) is False:
                raise StreamBroken("the stream ended without a finish_reason")
            calls, messages = _part_calls(chunks), list(request.messages)
            if behind is not None:
                response = _whole(litellm, chunks, calls, messages)
            else:
                response = litellm.stream_chunk_builder(chunks, messages=messages)
        yield self._completion(litellm, response, request, chunks)

    async def _response(self, litellm: Any, request: ModelRequest) -> Any:
        """Get litellm's response; retry without an optional part that the provider refuses."""
        arguments = self._arguments(request)
        left_out: list[extras.Extra] = []
        while True:
            for extra in (*self._refused, *left_out):
                arguments = extra.left_out(arguments)
            is_ours = _is_ours.set(True)
            try:
                return await litellm.acompletion(**arguments)
            except Exception as exc:  # boundary: tool - a provider; what is no refusal goes on
                # Build the arguments again, since litellm changes them.
                arguments = self._arguments(request)
                tried = {*self._refused, *left_out}
                found = [each for each in extras.EXTRAS if each.is_refused(exc, arguments)]
                new = next((each for each in found if each not in tried), None)
                if new is None:
                    raise
                (self._refused if new.for_good else left_out).append(new)
            finally:
                _is_ours.reset(is_ours)

    def _refuse_live_call(self) -> None:
        if providers.is_loopback(self._base) or chokepoint.live_calls_allowed(self._environ):
            return
        sentence = f"{self.name!r} would leave this machine, and live calls are switched off."
        remedy = "Unset PARSIMONY_LIVE_CALLS, or hand in a scripted model."
        raise FailureRaised(gap(sentence, remedy))

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "timeout": request.timeout_s * _PATIENCE,
            "stream_options": {"include_usage": True},
            **self._config,
            # Copied: litellm rewrites its arguments, and these are shared with later requests.
            "messages": _copied(list(request.messages)),
            "stream": True,
            # One attempt: only the funnel retries.
            "num_retries": 0,
            "max_retries": 0,
        }
        if request.tools:
            arguments["tools"] = _copied(list(request.tools))
        if "claude" in self.name.lower() and extras.lacks_thinking(request.messages):
            # It came from another model, or held a secret: Claude refuses to resume thinking.
            arguments = extras.THINKING.left_out(arguments)
        arguments = extras.marked(self.name, arguments)
        limit = request.max_answer_tokens
        if limit is not None and limit < self._writes_at_most():
            # litellm renames it for the provider, which would refuse both names together.
            arguments.pop("max_completion_tokens", None)
            arguments["max_tokens"] = limit
        if self._base:
            arguments.pop("base_url", None)
            arguments["api_base"] = self._base
            if not providers.key_of(self._config, self._environ) and providers.is_loopback(
                self._base
            ):
                # A server on this machine needs no key, but the client requires one.
                arguments["api_key"] = "none"
        return arguments

    def _writes_at_most(self) -> int:
        """Return the most tokens that the model can write, or that every model can if unknown."""
        most = self.max_answer_tokens or self._facts().get("max_output_tokens")
        return most if isinstance(most, int) else _EVERY_MODEL_WRITES

    def _facts(self) -> Mapping[str, Any]:
        """Return litellm's facts about the model; empty until litellm is imported."""
        known = getattr(sys.modules.get("litellm"), "model_cost", {})
        return known.get(self.name) or known.get(self.name.partition("/")[2]) or {}

    def _completion(
        self, litellm: Any, response: Any, request: ModelRequest, chunks: list[Any]
    ) -> Completion:
        choices = tuple(
            choice_of(choice, extras.carried(self.name, choice.message, chunks))
            for choice in getattr(response, "choices", None) or ()
        )
        told = getattr(response, "usage", None)
        usage = counted(told)
        cost = None
        if usage is None:
            usage = usage_by_size(request, choices[0].message if choices else Message())
            cost = self._price(litellm, usage)
        elif not self._has_no_price or self._facts() or getattr(told, "cost", None) is not None:
            priced = {"completion_response": response, "model": self.name}
            cost = _in_usd(lambda: litellm.completion_cost(**priced))
            self._has_no_price = cost is None
        return Completion(choices=choices, usage=usage, model=self.name, cost_usd=cost)

    def _price(self, litellm: Any, usage: Usage) -> float | None:
        sizes = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        return _in_usd(lambda: sum(litellm.cost_per_token(model=self.name, **sizes)))


def _copied(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Deep-copy JSON, in a quarter of the time of ``deepcopy``."""
    copied: list[dict[str, Any]] = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    return copied


def _in_usd(price: Callable[[], Any]) -> float | None:
    try:
        return usd(price())
    except Exception:  # boundary: tool - litellm raises many types for a price it does not know
        return None


def _is_warm(litellm: Any) -> bool:
    return not hasattr(litellm, "__path__") or all(name in sys.modules for name in _FIRST_USED)


async def _load() -> Any:
    litellm: Any = sys.modules.get("litellm")
    # The module is in sys.modules while it is still being imported; importing it again waits for
    # the first import.
    is_begun = getattr(getattr(litellm, "__spec__", None), "_initializing", False)
    if litellm is None or is_begun or not _is_warm(litellm):
        litellm = await asyncio.to_thread(import_litellm)
    litellm.suppress_debug_info = True  # otherwise it prints hints into the cell on errors
    return litellm


def import_litellm() -> Any:
    """Import litellm, without telemetry, network look-ups or debug logs. Takes seconds once.

    Raises ``FailureRaised`` if the installed release isn't supported.
    """
    problem = self_check()
    if problem:
        raise FailureRaised(unusable(problem))
    # litellm reads these while it is imported. They make it take prices from its own file instead
    # of the network, and keep the folder's .env out of the notebook's environment.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    # Otherwise it scans every request for base64 images, to leave them out of its log.
    os.environ.setdefault("MAX_BASE64_LENGTH_FOR_LOGGING", "0")
    litellm: Any = importlib.import_module("litellm")
    for name in _FIRST_USED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _spare_our_requests(litellm)
    # Warnings only, unless somebody chose a level: at DEBUG litellm logs keys.
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET and "LITELLM_LOG" not in os.environ:
            logger.setLevel(logging.WARNING)
    litellm.telemetry = False
    litellm.set_verbose = False
    return litellm


def _spare_our_requests(litellm: Any) -> None:
    """Skip slow work of litellm and openai's client for our own requests.

    Each part takes longer than the rest of a short step.
    """

    async def given(plain: Any, data: dict[str, Any], kind: Any) -> Any:
        # openai's client searches every value of every message for keys to rename; JSON has none.
        from openai._utils import is_given

        return {name: value for name, value in data.items() if is_given(value)}

    def told(plain: Any, result: Any, logging_obj: Any, *more: Any, **named: Any) -> None:
        # For its log, litellm prices a stream before it is read; that is needed by listeners only.
        if _is_heard(litellm, logging_obj):
            plain(result, logging_obj, *more, **named)

    _replace("openai.resources.chat.completions.completions", "async_maybe_transform", given)
    _replace("litellm.utils", "update_response_metadata", told)


def _replace(module_name: str, name: str, ours: Callable[..., Any]) -> None:
    """Patch a function so that our requests call ``ours``, with the original as first argument."""
    plain: Any = getattr(importlib.import_module(module_name), name, None)

    def chosen(*given: Any, **named: Any) -> Any:
        return ours(plain, *given, **named) if _is_ours.get() else plain(*given, **named)

    if plain is not None and plain.__module__ != __name__:
        setattr(sys.modules[module_name], name, chosen)


def self_check() -> str | None:
    """Return why the installed litellm can't be used, in one sentence; ``None`` if it can.

    Reads the package's metadata and imports nothing.
    """
    # Deferred: 5 ms, which the built-in model never needs.
    from packaging.specifiers import SpecifierSet

    wanted = f"pip install 'litellm{TRIED}'"
    try:
        version = importlib.metadata.version("litellm")
    except importlib.metadata.PackageNotFoundError:
        return f"litellm is not installed, so no provider can be reached; run: {wanted}"
    if version in _COMPROMISED:
        return (
            f"litellm {version} is a compromised release: remove it, change every key that it "
            f"could read, and run: {wanted}"
        )
    is_tried = False
    with contextlib.suppress(ValueError):  # before packaging 26: a version that is none
        is_tried = SpecifierSet(TRIED).contains(version, prereleases=True)
    if not is_tried:
        return (
            f"litellm {version} is installed, and only {TRIED} is known to work with tools; "
            f"run: {wanted}"
        )
    return None


def no_key(model: str, variable: str) -> Failure:
    """Build the failure of a missing API key; ``variable`` is the variable that should hold it."""
    sentence = f"There is no API key for the model {model!r}."
    remedy = f"Set the environment variable {variable}, or choose the model 'offline'."
    return gap(sentence, remedy, variable=variable)


def unusable(problem: str) -> Failure:
    """Build the failure of an unusable litellm, with the reason from ``self_check``."""
    return CAPABILITY_GAP.failure(f"{problem}.", blockers=(problem,))


def _behind(litellm: Any, response: Any) -> Any:
    """Return the stream of openai's client inside litellm's wrapper, to read it directly.

    The wrapper assembles an answer three times for its log, which takes longer than the rest of a
    short step. Returns ``None`` for every other client, and if somebody listens: to all calls, to
    this one (``success_callback`` of the configuration), or as a tracer around either stream, which
    sees only what is read from it.
    """
    if type(response) is not getattr(litellm, "CustomStreamWrapper", None):
        return None
    stream: Any = response.completion_stream
    of_client = importlib.import_module("openai.types.chat").ChatCompletionChunk
    client = importlib.import_module("openai").AsyncStream
    is_plain = type(stream) is client and stream._cast_to is of_client
    return stream if is_plain and not _is_heard(litellm, response.logging_obj) else None


def _is_heard(litellm: Any, logging_obj: Any) -> bool:
    """Whether anybody listens to litellm's log, of all calls or of this one."""
    told = vars(logging_obj).items()
    heard = [each for name, each in told if name.startswith("dynamic_") and "callback" in name]
    return any([*heard, *(getattr(litellm, name, None) for name in _LISTENERS)])


async def _pieces(litellm: Any, response: Any, behind: Any) -> AsyncGenerator[Any, None]:
    """Yield the pieces of an answer, from litellm's wrapper or from the stream ``behind`` it."""
    if behind is None:
        async for piece in response:
            yield piece
        return
    behind._cast_to = object  # raw JSON, if the client supports that
    try:
        async for given in behind:
            if given is None:  # litellm skips these too
                continue
            told = given if isinstance(given, dict) else given.to_dict()
            piece = _piece(told)
            # The price is that of the model that answered: an alias has none.
            piece.model = str(told.get("model") or response.model)
            response.chunks.append(piece)
            response.raise_on_model_repetition()
            if piece.choices and piece.choices[0].finish_reason:
                response.received_finish_reason = piece.choices[0].finish_reason
            # An invalid usage after the end doesn't discard a complete answer.
            if isinstance(told.get("usage"), dict):
                with contextlib.suppress(ValueError):
                    piece.usage = litellm.Usage(**told["usage"])
            yield piece
    except Exception as exc:  # boundary: tool - the provider's stream, told as litellm tells it
        response._handle_stream_fallback_error(exc)


def _piece(chunk: Mapping[str, Any]) -> SimpleNamespace:
    """Convert a raw piece to litellm's form: the parts of an answer only.

    Other fields may have any type.
    """
    choices = []
    for choice in chunk.get("choices") or []:
        given = choice.get("delta") or {}
        calls = [each for each in given.get("tool_calls") or () if each and each.get("function")]
        read = {
            "content": prose(given.get("content")),
            "reasoning_content": _words(given.get("reasoning_content") or given.get("reasoning")),
            "tool_calls": list(map(_call, calls)),
        }
        delta = SimpleNamespace(**{**given, **read})
        choices.append(SimpleNamespace(delta=delta, finish_reason=choice.get("finish_reason")))
    return SimpleNamespace(choices=choices, usage=None, service_tier=chunk.get("service_tier"))


def _call(chunk: Mapping[str, Any]) -> SimpleNamespace:
    function = chunk["function"]
    arguments = function.get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    named = SimpleNamespace(name=function.get("name"), arguments=text)
    return SimpleNamespace(id=chunk.get("id"), index=chunk.get("index"), function=named)


def _whole(litellm: Any, pieces: list[Any], calls: list[Any], messages: list[Any]) -> Any:
    """Assemble the pieces and calls of a stream into litellm's response."""
    choices = [piece.choices[0] for piece in pieces if piece.choices]
    reply = {
        "content": "".join(each.delta.content or "" for each in choices) or (None if calls else ""),
        "reasoning_content": "".join(each.delta.reasoning_content for each in choices) or None,
        "tool_calls": calls,
    }
    end = [choice.finish_reason for choice in choices if choice.finish_reason][-1]
    tier = next((piece.service_tier for piece in pieces if piece.service_tier), None)
    # The first piece may name a deployment or nothing; later ones name the model that is priced.
    first, *others = dict.fromkeys(piece.model for piece in pieces)
    meta = {"model": others[0] if others else first, "service_tier": tier}
    counts = [piece.usage for piece in pieces if piece.usage]
    if len(counts) == 1:
        one = {"message": reply, "finish_reason": end}
        return litellm.ModelResponse(choices=[one], usage=counts[0], **meta)
    # With no usage, or several, litellm computes it while it assembles the pieces.
    whole = litellm.ModelResponseStream(choices=[{"delta": reply, "finish_reason": end}], **meta)
    more = [litellm.ModelResponseStream(choices=[], usage=each, **meta) for each in counts]
    return litellm.stream_chunk_builder([whole, *more], messages=messages)


def _delta(chunk: Any) -> Delta:
    delta = _delta_of(chunk)
    return Delta(
        text=_words(getattr(delta, "content", None)),
        reasoning=_words(getattr(delta, "reasoning_content", None)),
    )


def _delta_of(chunk: Any) -> Any:
    choices = getattr(chunk, "choices", None)
    return getattr(choices[0], "delta", None) if choices else None


def _part_calls(chunks: list[Any]) -> list[dict[str, Any]]:
    """Assemble the calls of a stream, and correct the index and id of their pieces in place.

    litellm joins pieces by index, and loses a call without an id. A new id at the same index begins
    a new call, unless the arguments are incomplete: some models send a new id with every piece.
    """
    begun: dict[int, tuple[int, str]] = {}  # by index as sent: the index as told, the id as sent
    calls: list[dict[str, Any]] = []
    for chunk in chunks:
        for place, piece in enumerate(getattr(_delta_of(chunk), "tool_calls", None) or ()):
            call_id, name = piece.id or "", piece.function.name
            index = place if piece.index is None else piece.index
            at, known = begun.get(index, (-1, ""))
            is_other = bool(call_id) and call_id != known and bool(name)
            if at < 0 or (is_other and _is_whole(calls[at]["function"]["arguments"])):
                at = len(calls)
                begun[index] = at, call_id
                piece.id = call_id or f"call_{at}"
                empty = {"name": None, "arguments": ""}
                calls.append({"index": at, "id": piece.id, "function": empty})
            else:
                piece.id = None
            piece.index = at
            function = calls[at]["function"]
            function["name"] = name or function["name"]
            function["arguments"] += piece.function.arguments or ""
    return calls


def _is_whole(arguments: str) -> bool:
    return from_json(arguments or "{}", ValueError) is not ValueError


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _said_end(stream: Any) -> bool | None:
    """Whether the provider itself ended the answer; ``None`` if litellm doesn't tell.

    litellm makes up a "stop" for a connection that closed midway, an empty body or a page of HTML;
    the attributes of ``_ENDS`` hold the provider's own reason.
    """
    ends = [getattr(stream, name) for name in _ENDS if hasattr(stream, name)]
    return any(ends) if ends else None
