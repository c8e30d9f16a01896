"""Four agent loops with one tool, for ``model_tasks.py``: each runs in a process of its own.

    python model_loops.py LOOP < job.json

LOOP is ``notebook`` (the extension in an IPython shell), ``agent`` (the ``Agent`` of the library
alone), ``smolagents``, ``pydantic-ai`` or ``pydantic-ai, streaming``; a peer needs its package.
The job names the endpoint and the tasks; a line of JSON comes out for each task: its answers, one
a turn, the seconds it took, and the CPU of this process. The first task is for warming up and is
told like the others. The standard library is all that is imported before a loop is chosen.
"""

import ast
import asyncio
import contextlib
import importlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import AsyncIterable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

MODEL = "model-tasks"
MOST_STEPS = 400
# As much of what code prints as `run_code` shows.
SHOWN_CHARACTERS = 4_000

INSTRUCTIONS = """\
You work on data for a person. run_python runs Python in a namespace that lasts; you see what it \
prints and the value of its last expression, up to 4,000 characters. Look at data before you use \
it, state only numbers that you have seen or computed, and answer in a few sentences."""

Turn = Callable[[str], str]


class Workbench:
    """The tool of the peers: Python in a namespace that lasts."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(self, code: str) -> str:
        """Run ``code`` and give what it printed and the value of its last expression."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                value = self._value(ast.parse(code))
                if value is not None:
                    print(value)
            except Exception as error:
                print("".join(traceback.format_exception_only(error)).strip())
        return printed.getvalue()[:SHOWN_CHARACTERS]

    def names(self) -> str:
        """What the namespace holds, as a request tells it."""
        held = (
            f"{name} ({type(value).__name__})"
            for name, value in self.namespace.items()
            if not name.startswith("__") and not isinstance(value, type(sys))
        )
        return ", ".join(held)

    def _value(self, tree: ast.Module) -> object:
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            exec(compile(tree, "<step>", "exec"), self.namespace)
            return None
        tree.body.pop()
        exec(compile(tree, "<step>", "exec"), self.namespace)
        return eval(compile(ast.Expression(last.value), "<step>", "eval"), self.namespace)


def told(request: str, bench: Workbench) -> str:
    """``request`` with the names that a notebook would show to its reader."""
    files = ", ".join(sorted(each.name for each in Path.cwd().iterdir())) or "none"
    return f"{request}\n\nFiles: {files}\nVariables: {bench.names() or 'none'}"


@contextlib.contextmanager
def notebook(url: str, setup: str) -> Iterator[Turn]:
    """The extension, as people use it, in a shell without a front end."""
    from IPython.core.interactiveshell import InteractiveShell

    from parsimony_agent import load_ipython_extension

    shell = InteractiveShell.instance()
    shell.reset()
    load_ipython_extension(shell)
    _cell(shell, "%agent reset --yes")
    shell.run_line_magic("config", f"ParsimonyAgent.max_steps = {MOST_STEPS}")
    _cell(shell, setup)

    def turn(request: str) -> str:
        cell = f"%%agent -m openai/{MODEL} --approve auto --max-steps {MOST_STEPS} -o came_to\n"
        _cell(shell, cell + request)
        return str(shell.user_ns["came_to"].text)

    yield turn


def _cell(shell: Any, source: str) -> None:
    """Run a cell and keep what it shows off the lines that are this program's answer."""
    with contextlib.redirect_stdout(io.StringIO()):
        ran = shell.run_cell(source, store_history=True)
    ran.raise_error()


@contextlib.contextmanager
def agent(url: str, setup: str) -> Iterator[Turn]:
    """The library's ``Agent`` with its own executor, without a notebook around it."""
    from parsimony_kernel import Agent
    from parsimony_kernel.core.config import AgentGuardrails

    limits = AgentGuardrails(max_iterations=MOST_STEPS)
    ours = Agent(f"openai/{MODEL}", guardrails=limits, suspension_secret="a secret for benchmarks")
    asyncio.run(ours.code_executor.execute(setup))
    yield lambda request: str(asyncio.run(ours.ask(request)).text)


@contextlib.contextmanager
def smolagents(url: str, setup: str) -> Iterator[Turn]:
    """``ToolCallingAgent``: the loop of smolagents that calls tools."""
    peer = importlib.import_module("smolagents")
    bench = Workbench()
    bench.run(setup)

    def run_python(code: str) -> str:
        """Run Python in a namespace that lasts.

        Args:
            code: The Python to run.
        """
        return bench.run(code)

    model = peer.OpenAIServerModel(MODEL, api_base=url, api_key="any")
    theirs = peer.ToolCallingAgent(
        [peer.tool(run_python)],
        model,
        instructions=INSTRUCTIONS,
        max_steps=MOST_STEPS,
        verbosity_level=0,
    )
    turns = 0

    def turn(request: str) -> str:
        nonlocal turns
        turns += 1
        return str(theirs.run(told(request, bench), reset=turns == 1))

    yield turn


@contextlib.contextmanager
def pydantic_ai(url: str, setup: str, *, streams: bool = False) -> Iterator[Turn]:
    """pydantic-ai's ``Agent`` with a function as its tool.

    Args:
        streams: answers come word by word, as ours do, and not in one piece.
    """
    peer = importlib.import_module("pydantic_ai")
    model = importlib.import_module("pydantic_ai.models.openai").OpenAIChatModel
    provider = importlib.import_module("pydantic_ai.providers.openai").OpenAIProvider
    limits = importlib.import_module("pydantic_ai.usage").UsageLimits
    bench = Workbench()
    bench.run(setup)
    theirs = peer.Agent(
        model(MODEL, provider=provider(base_url=url, api_key="any")), instructions=INSTRUCTIONS
    )

    @theirs.tool_plain  # type: ignore[untyped-decorator]
    def run_python(code: str) -> str:
        """Run Python in a namespace that lasts."""
        return bench.run(code)

    history: list[Any] = []

    async def listen(_: Any, events: AsyncIterable[Any]) -> None:
        async for _each in events:
            pass

    def turn(request: str) -> str:
        ran = theirs.run_sync(
            told(request, bench),
            message_history=history,
            event_stream_handler=listen if streams else None,
            usage_limits=limits(request_limit=MOST_STEPS),
        )
        history[:] = ran.all_messages()
        return str(ran.output)

    yield turn


LOOPS: dict[str, Callable[[str, str], contextlib.AbstractContextManager[Turn]]] = {
    "notebook": notebook,
    "agent": agent,
    "smolagents": smolagents,
    "pydantic-ai": pydantic_ai,
    "pydantic-ai, streaming": partial(pydantic_ai, streams=True),
}


def main() -> None:
    """Run the job on standard input."""
    loop = LOOPS[sys.argv[1]]
    job = json.load(sys.stdin)
    answer_line = sys.stdout
    for task in job["tasks"]:
        os.chdir(task["folder"])
        answers: list[str] = []
        with contextlib.redirect_stdout(sys.stderr), loop(job["url"], task["setup"]) as turn:
            begun, cpu = time.monotonic(), time.process_time()
            for request in task["turns"]:
                try:
                    answers.append(turn(request))
                except Exception as error:  # a loop that gives up is a wrong answer, not the end
                    answers.append(f"{type(error).__name__}: {error}")
            took = {"seconds": time.monotonic() - begun, "cpu_s": time.process_time() - cpu}
        print(json.dumps({"task": task["name"], "answers": answers, **took}), file=answer_line)
        answer_line.flush()


if __name__ == "__main__":
    main()
