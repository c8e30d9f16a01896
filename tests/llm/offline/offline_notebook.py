"""A notebook in little: plays the offline model against real code in a real namespace.

Renders what the loop would render, compaction included, so that the model sees no more than it
would see in a run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import notebook_changes, notebook_context
from parsimony_kernel.agent.renderer import IncrementalRenderer
from parsimony_kernel.core.chat import Completion, Delta, Message, ModelRequest
from parsimony_kernel.core.conversation import opening, request_message
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.factory import summarise
from parsimony_kernel.offline.model import OfflineModel

TOOLS = ("run_code", "return_dataset", "return_chart", "ask_user", "return_done", "return_unable")
MAX_STEPS = 20


@dataclass
class Turn:
    """What a request led to."""

    ending: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    purposes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    published: list[dict[str, Any]] = field(default_factory=list)

    @property
    def summary(self) -> str:
        return str(self.arguments.get("summary", ""))

    @property
    def choices(self) -> list[str]:
        return list(self.arguments.get("choices", []))


class Notebook:
    """Requests in one folder and one namespace; earlier turns are shown to later ones."""

    def __init__(self, folder: Path, *, tools: tuple[str, ...] = TOOLS) -> None:
        self.folder = folder
        self.executor = CodeExecutor(cwd=str(folder))
        self.tools = [{"type": "function", "function": {"name": name}} for name in tools]
        self.earlier: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.turn = Turn()
        self.request = ""
        self.answers: dict[str, str] = {}

    async def run(self, code: str) -> None:
        """A cell of the person's own."""
        output = await self.executor.execute(code)
        assert output.error is None, output.error

    def __getitem__(self, name: str) -> Any:
        return self.executor.variables()[name]

    def context(self) -> str:
        files = sorted(
            p.relative_to(self.folder).as_posix() for p in self.folder.rglob("*") if p.is_file()
        )
        variables, more = summarise(self.executor.variables())
        return notebook_context(
            working_folder="",
            files=files,
            variables=variables,
            more_variables=more,
            answers=self.answers,
        )

    async def ask(self, request: str) -> Turn:
        """Play a request up to its end or its question."""
        self.messages = [*self.earlier, *opening(request, self.context())]
        self.turn, self.request = Turn(), request
        return self._remembered(await self._play())

    def _remembered(self, turn: Turn) -> Turn:
        """What later turns are told of this one, as the session does."""
        refused = f"Not done; it was handed back: {turn.arguments.get('rationale')}"
        said = {"return_done": turn.summary, "return_unable": refused}.get(turn.ending)
        if said is not None:
            answer = {"role": "assistant", "content": said}
            self.earlier += [request_message(self.request), answer]
        return turn

    async def reply(
        self, text: str, *, gone: Sequence[str] = (), changed: Sequence[str] = ()
    ) -> Turn:
        """Answer the question; variables were ``gone`` or ``changed`` meanwhile."""
        if gone or changed:
            for name in gone:
                await self.executor.execute(f"del {name}")
            changes = notebook_changes(gone=gone, changed=changed)
            assert changes is not None
            self.messages.append({"role": "user", "content": changes})
        self.answers[str(self.turn.arguments.get("question"))] = text
        self.messages.append({"role": "user", "content": text})
        return self._remembered(await self._play())

    async def _play(self) -> Turn:
        for _ in range(MAX_STEPS):
            message = await self._answer()
            self._record(message)
            for call in message.tool_calls:
                arguments = json.loads(call.function.arguments)
                answer = await self._call(call.function.name, arguments)
                told = json.dumps(answer, ensure_ascii=False)
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
                if call.function.name in ("ask_user", "return_done", "return_unable"):
                    self.turn.ending, self.turn.arguments = call.function.name, arguments
                    return self.turn
            if not message.tool_calls:
                self.turn.ending = "text"
                return self.turn
        raise AssertionError(f"no end after {MAX_STEPS} steps: {self.turn.purposes}")

    async def _answer(self) -> Message:
        state = RunState(run_id="r", session_id="s", messages=self.messages)
        request = ModelRequest(
            messages=IncrementalRenderer("You are an agent.").render(state, in_text=False),
            tools=self.tools,
        )
        completion, text = await complete(request)
        assert text == (completion.message.content or "")
        return completion.message

    def _record(self, message: Message) -> None:
        calls = [asdict(call) for call in message.tool_calls]
        told = {"role": "assistant", "content": message.content, "tool_calls": calls}
        self.messages.append(told)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name != "run_code":
            return {"requested": name, "result": self._publish(name, arguments), "state": "running"}
        code = str(arguments["code"])
        assert code not in self.turn.codes or code not in self._failed(), "failing code came twice"
        self.turn.codes.append(code)
        self.turn.purposes.append(str(arguments["purpose"]))
        output = await self.executor.execute(code)
        if output.error is None:
            return {"requested": name, "result": output.for_model(), "state": "running"}
        self.turn.errors.append(f"{output.error.name}: {output.error.message}\n{code}")
        name, text = output.error.name, output.error.message
        error = {"error_type": name, "error_message": text, "message": f"{name}: {text}"}
        return {"error": "action_error", "result": output.for_model(), **error}

    def _failed(self) -> set[str]:
        return {error.partition("\n")[2] for error in self.turn.errors}

    def _publish(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name not in ("return_chart", "return_dataset"):
            return {}
        value = self[str(arguments["variable"])]
        kind = name.removeprefix("return_")
        self.turn.published.append({"kind": kind, "value": value, **arguments})
        return {"kind": kind, "path": f".ockham/{kind}s/{arguments['variable']}", "reused": False}


async def complete(request: ModelRequest) -> tuple[Completion, str]:
    """The model's answer, and the text that it streamed before."""
    text = ""
    found: list[Completion] = []
    async for piece in OfflineModel().stream(request):
        if isinstance(piece, Delta):
            assert not found, "a delta after the completion"
            text += piece.text
        else:
            found.append(piece)
    assert len(found) == 1
    return found[0], text


def spec(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, valid by altair's own check."""
    made = chart.to_dict()
    assert isinstance(made, dict)
    return made


def encodings(chart: Any) -> dict[str, tuple[str, str]]:
    """Channel to field and type."""
    found = spec(chart)["encoding"]
    return {
        channel: (value["field"], value.get("type", ""))
        for channel, value in found.items()
        if isinstance(value, dict) and "field" in value
    }


def mark(chart: Any) -> str:
    """The kind of mark that a chart draws with."""
    found = spec(chart)["mark"]
    return str(found["type"] if isinstance(found, dict) else found)
