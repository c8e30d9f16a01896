"""Tools as values: a function, its schema, and what it answers.

A tool's function is an async callable that takes keyword arguments and returns a ``ToolResult``
or any JSON-able data. Running it, with arguments checked and a deadline, is the gate's.
"""

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.text import words_of

if TYPE_CHECKING:
    from pydantic import BaseModel

ToolFunction = Callable[..., Awaitable[Any]]
Validator = Callable[[Mapping[str, Any]], Mapping[str, str] | bool | str | None]


class Verdict(Protocol):
    """A validator's word about an output; ``patterns.critic.ValidationResult`` is one."""

    @property
    def valid(self) -> bool: ...
    @property
    def reason(self) -> str: ...


OutputValidator = Callable[[Any], Verdict | bool | str | None]


# The ends of the threads that were started in this context, for whoever has to know what goes on.
THREADS: contextvars.ContextVar[list[Future[Any]] | None] = contextvars.ContextVar(
    "parsimony_threads", default=None
)
# How a function is run in its thread, for whoever has to be able to stop it.
AROUND: contextvars.ContextVar[Callable[[Callable[[], Any]], Any] | None] = contextvars.ContextVar(
    "parsimony_around_thread", default=None
)


async def in_thread(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """What ``function`` gives in a daemon thread of its own.

    A caller that gives up leaves the thread to itself; it keeps no process from ending.
    """
    ended: Future[tuple[Any, BaseException | None]] = Future()
    ended.set_running_or_notify_cancel()
    context = contextvars.copy_context()
    call, around = functools.partial(function, **arguments), AROUND.get()

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(call) if around is None else context.run(around, call)
        except BaseException as exc:  # boundary: tool - its trouble is handed over
            error = exc
        ended.set_result((value, error))

    threading.Thread(target=work, name="parsimony-tool", daemon=True).start()
    threads = THREADS.get()
    if threads is not None:
        threads.append(ended)
    value, error = await asyncio.wrap_future(ended)
    if error is not None:
        raise error
    return value


def is_bool(value: Any) -> bool:
    """Whether ``value`` is a truth value, numpy's too."""
    return type(value).__name__ in ("bool", "bool_")


@dataclass(frozen=True)
class ToolResult:
    """What a tool answers: data, or a failure, or the sentence of an exception.

    ``note`` says what there is to say beside the data.
    """

    data: Any = None
    failure: Failure | None = None
    exception_message: str | None = None
    partial_data: Any = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the tool did what was asked."""
        return self.failure is None and self.exception_message is None

    @classmethod
    def from_data(cls, data: Any) -> "ToolResult":
        """Success."""
        return cls(data=data)

    @classmethod
    def from_exception(cls, exc: BaseException, *, partial_data: Any = None) -> "ToolResult":
        """Return the result of a tool that raised ``exc``.

        Args:
            exc: the exception; its type and text are kept, no traceback.
            partial_data: what was obtained before it failed.
        """
        text = words_of(exc)
        message = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
        return cls(exception_message=message, partial_data=partial_data)

    @classmethod
    def from_failure(cls, failure: Failure, *, partial_data: Any = None) -> "ToolResult":
        """Return the result of a tool that knows how it failed.

        Args:
            failure: what went wrong, and what to do next.
            partial_data: what was obtained before; that of ``failure`` by default.
        """
        return cls(
            failure=failure,
            partial_data=failure.partial_data if partial_data is None else partial_data,
        )


@dataclass(frozen=True)
class Tool:
    """One action that a model may request.

    Args:
        function: awaited with the arguments as keywords.
        parameters_schema: JSON Schema of the arguments, an object.
        tool_type: ``code``, ``publish``, ``termination`` or ``function``; the record's icon.
        timeout_s: the deadline; ``None`` takes the run's ``tool_timeout_s``.
        idempotent: running it twice with the same arguments is the same as once.
        effect: what it does outside: ``none``, ``idempotent`` or ``write``; ``None`` is not said.
            A write is on record before and after, is never done twice in a run, and may have to
            be approved. One that raises says that nothing happened, unless a connection, a
            time limit or a server's own trouble is in the exception or in what led to it: then
            nobody knows, and it is
            reconciled or a person is asked. ``raise ... from None`` is how a write that knows
            better says so. A tool that does not say what it does is tried again after an error,
            and asked about after its deadline; one whose name says that it deletes, modifies,
            transfers or refunds may have to be approved.
        validators: asked before it runs, in order; each gives the reason why not, or ``None``.
            A mapping of fields to reasons, or pydantic's own error, names the fields at fault.
            ``True`` accepts and ``False`` refuses; one is plain, and has two seconds.
        output_validators: asked about what it answered in the same way, the first refusal
            stopping; each may give a verdict as well. Of a write they see what is on
            record, as JSON; it has happened all the same, and is not done again.
        reconcile: for a write: awaited with the same arguments when it is not known whether it
            happened; gives what the write would have answered, or ``None`` when it did not happen;
            ``True`` and ``False`` say the same and no more.
        retryable_on_error: a failure of it may be retried; else the run is handed off, or the
            person is asked where the effect is not known.
        parallelizable: with ``effect="none"`` it may run beside others like it that stand next to
            it in one answer; any other waits for the calls before it. Results keep their order,
            and nothing of it is undone when it fails.
        terminal: it ends the run, or suspends it.
        reaches: asked before it runs, with its arguments: what this call would do that a person
            has to allow where they are asked at all, a sentence each; nothing where it is plain.

    ``TypeError`` for a generator as its function or its ``reconcile``, and for a validator that
    would have to be awaited; ``ValueError`` for a deadline that leaves no time.
    """

    function: ToolFunction
    name: str
    description: str
    parameters_schema: Mapping[str, Any]
    tool_type: str = "function"
    idempotent: bool = False
    effect: Literal["none", "idempotent", "write"] | None = None
    validators: Sequence[Validator] = ()
    output_validators: Sequence[OutputValidator] = ()
    reconcile: ToolFunction | None = None
    retryable_on_error: bool = True
    parallelizable: bool = False
    timeout_s: float | None = None
    terminal: bool = False
    reaches: Callable[[Mapping[str, Any]], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        for function in (self.function, self.reconcile):
            if function is not None:
                _no_generator(function)
        if callable(self.function):
            object.__setattr__(self, "function", _async(self.function))
        for validator in (*self.validators, *self.output_validators):
            if _is(inspect.iscoroutinefunction, validator) or _is_generator(validator):
                raise TypeError(
                    f"{self.name}: the validator {validator!r} would have to be awaited; "
                    "make it a plain function"
                )
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ValueError(
                f"{self.name}: timeout_s={self.timeout_s!r} leaves no time; give more than 0, or "
                "None for the run's own"
            )

    @property
    def is_repeatable(self) -> bool:
        """Whether running it again cannot do anything twice."""
        return self.idempotent or self.effect in ("none", "idempotent")

    @functools.cached_property
    def arguments(self) -> "type[BaseModel]":
        """What the function takes, as a pydantic model of its whole signature."""
        return arguments_model(self.function)

    def to_llm(self) -> dict[str, Any]:
        """The schema that a provider takes, without what says nothing to a model."""
        schema = _lean(self.parameters_schema)
        told = {"name": self.name, "description": self.description, "parameters": schema}
        return {"type": "function", "function": told}


class Tools(Mapping[str, Tool]):
    """Tools by name, in order. Immutable; ``+`` joins, the right side winning a name."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._by_name = {tool.name: tool for tool in tools}

    def __getitem__(self, name: str) -> Tool:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __add__(self, other: "Tools | Iterable[Tool]") -> "Tools":
        added = other.values() if isinstance(other, Tools) else other
        return Tools([*self.values(), *added])

    def copy(self) -> "Tools":
        """Another with the same tools."""
        return Tools(self.values())

    def to_llm(self) -> list[dict[str, Any]]:
        """The schemas, in order."""
        return [tool.to_llm() for tool in self.values()]


_MARK = "__parsimony_tool__"
F = TypeVar("F", bound=Callable[..., Any])


def arguments_model(function: Callable[..., Any]) -> "type[BaseModel]":
    """Return a pydantic model of the whole signature of ``function``, extra fields forbidden.

    ``**kwargs`` admits any name.

    Raises:
        TypeError: a parameter is positional-only or ``*args``.
    """
    name = getattr(function, "__name__", "arguments")
    signature = inspect.signature(function, eval_str=True)
    try:
        hash(signature)
    except TypeError:  # a default that can be changed
        return _model.__wrapped__(name, signature, "")
    # In words too, since 1 and True are equal.
    return _model(name, signature, str(signature))


@functools.lru_cache(maxsize=256)
def _model(name: str, signature: inspect.Signature, in_words: str) -> "type[BaseModel]":
    """Models are built once: a turn has some twenty tools, each a closure that is made anew."""
    from pydantic import ConfigDict, create_model  # deferred: most imports of tools build none

    fields: dict[str, Any] = {}
    extra: Literal["allow", "forbid"] = "forbid"
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name}: a tool's parameters must be named, {str(parameter)!r} is not")
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default)
    return create_model(name, __config__=ConfigDict(extra=extra), **fields)


@functools.lru_cache(maxsize=256)
def _schema_of(model: "type[BaseModel]") -> Mapping[str, Any]:
    schema: dict[str, Any] = model.model_json_schema()
    schema.pop("title", None)
    for each in schema.get("properties", {}).values():
        each.pop("title", None)
    return schema


def _lean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` without the null that a default says already, and without empty defaults."""
    lean = {key: each for key, each in schema.items() if key != "additionalProperties" or each}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        lean["properties"] = {name: _lean_field(each) for name, each in properties.items()}
    return lean


def _lean_field(field: Any) -> Any:
    if not isinstance(field, Mapping):
        return field
    lean = dict(field)
    if "default" in lean and lean["default"] in (None, ""):
        del lean["default"]
        kinds = [each for each in lean.get("anyOf", ()) if each != {"type": "null"}]
        if len(kinds) == 1:
            del lean["anyOf"]
            lean = {**kinds[0], **lean}
    return lean


def _is(kind: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    """Whether ``function``, or the method that an instance is called by, is of that kind."""
    return kind(function) or kind(type(function).__call__)


def _is_generator(function: Callable[..., Any]) -> bool:
    return _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function)


def _no_generator(function: Callable[..., Any]) -> None:
    if _is_generator(function):
        raise TypeError(
            f"{function!r} is a generator, whose body would not run; return a list of what it "
            "yields"
        )


def _async(function: Callable[..., Any]) -> ToolFunction:
    if inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def run(**arguments: Any) -> Any:
        answered = await in_thread(function, **arguments)
        return await answered if inspect.isawaitable(answered) else answered

    return run


def _build(
    function: Callable[..., Any], /, *, name: str | None, description: str | None, **options: Any
) -> Tool:
    if not (callable(function) and inspect.isroutine(function)):
        raise TypeError(
            f"a tool is made of a function, not of {function!r}; write one that calls it"
        )
    _no_generator(function)
    return Tool(
        function=function,
        name=name or function.__name__,
        description=description or inspect.cleandoc(function.__doc__ or ""),
        parameters_schema=deepcopy(_schema_of(arguments_model(function))),
        **options,
    )


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Turn a typed function into a ``Tool``: schema from its signature, description from its doc.

    A plain function runs in a thread of its own, which cannot be stopped: one that outlives its
    deadline is cut off and runs on.

    Args:
        function: the function; without it, a decorator is returned.
        name: the tool's name for the model; the function's by default.
        description: what the model reads; its docstring by default.
        options: ``Tool``'s other fields.
    """
    build = functools.partial(_build, name=name, description=description, **options)
    return build if function is None else build(function)


def toolmethod(
    *, name: str | None = None, description: str | None = None, **options: Any
) -> Callable[[F], F]:
    """Mark a method as a tool; ``tools_of(instance)`` collects the marked ones, bound."""

    def mark(function: F) -> F:
        setattr(function, _MARK, tool(name=name, description=description, **options))
        return function

    return mark


def tools_of(instance: object) -> Tools:
    """The marked methods of ``instance`` as tools, in the order of their definition."""
    found: dict[str, Tool] = {}
    for cls in reversed(type(instance).__mro__):
        for attribute in vars(cls).values():
            build = getattr(attribute, _MARK, None)
            if isinstance(build, functools.partial):
                built = build(attribute.__get__(instance))
                found[built.name] = built
    return Tools(found.values())
