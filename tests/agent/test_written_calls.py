"""Calls that weak models write into their words: what they send, and what is called then."""

import json
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.agent.written_calls import written_calls
from parsimony_kernel.core.chat import Completion, Message
from parsimony_kernel.core.events import RunCompleted, ToolEvent
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.testing.provider import LoopbackProvider
from parsimony_kernel.testing.scripted import ScriptedModel, raw_call, say
from parsimony_kernel.toolbox.run_tools import code_tools
from parsimony_kernel.tools import Tools
from tests.llm.dialects import WARNINGS
from tests.scenarios.loops import gather

pytestmark = WARNINGS

CODE = "x = [1, 2]\nprint(sum(x))"
QUOTED = json.dumps(CODE)
DONE = {"summary": "The sum is 3."}
RUN: list[Any] = [("run_code", {"code": CODE})]

GIVEN = json.dumps({"code": CODE})
ONE = f'{{"name": "run_code", "arguments": {GIVEN}}}'
AS_PARAMETERS = ONE.replace("arguments", "parameters")
ASKED = {"question": "Which?", "choices": ["a", "b"]}
OPENAI = {"type": "function", "function": {"name": "run_code", "arguments": GIVEN}}
END = [("return_done", DONE)]
TWO_FENCES = "First:\n```python\nx = [1, 2]\n```\nThen:\n```python\nprint(sum(x))\n```"
QWEN = f"<function=run_code>\n<parameter=code>\n{CODE}\n</parameter>\n</function>"
HTML = "p = '<code>1</code>'"

WRITTEN: dict[str, tuple[str, list[Any]]] = {
    "a fence": (f"Here is the code:\n\n```python\n{CODE}\n```\nIt prints the sum.", RUN),
    "a fence in capitals": (f"```Python\n{CODE}\n```", RUN),
    "a fence without a kind": (f"```\n{CODE}\n```", RUN),
    "half a fence": (f"Sure!\n```py\n{CODE}", RUN),
    "two fences": (TWO_FENCES, [("run_code", {"code": "x = [1, 2]\n\nprint(sum(x))"})]),
    "behind a thought": (f"<think>```python\nno()\n```</think>\n```python\n{CODE}\n```", RUN),
    "behind half a thought": (f"so I sum\n</think>\n```python\n{CODE}\n```", RUN),
    "JSON": (ONE, RUN),
    "JSON with parameters": (AS_PARAMETERS, RUN),
    "JSON as text": (json.dumps({"name": "run_code", "arguments": GIVEN}), RUN),
    "JSON with real line ends": (f'{{"name": "run_code", "arguments": {{"code": "{CODE}"}}}}', RUN),
    "JSON in words": (f'I call {{"tool": "run_code", "args": {GIVEN}}} now.', RUN),
    "JSON in a fence": (f'```json\n{{"action": "run_code", "code": {QUOTED}}}\n```', RUN),
    "JSON of OpenAI's form": (json.dumps({"tool_calls": [OPENAI]}), RUN),
    "a list": (f'[{ONE}, {{"name": "return_done", "arguments": {json.dumps(DONE)}}}]', RUN + END),
    "Hermes": (f"<tool_call>\n{ONE}\n</tool_call>", RUN),
    "half of Hermes": (f"<tool_call>{ONE}", RUN),
    "Mistral": (f"[TOOL_CALLS][{ONE}]", RUN),
    "Llama": (f"<|python_tag|>{AS_PARAMETERS}", RUN),
    "Llama's function": (f"<function=run_code>{GIVEN}</function>", RUN),
    "Qwen coder": (f"<tool_call>\n{QWEN}\n</tool_call>", RUN),
    "Qwen coder with HTML in it": (QWEN.replace(CODE, HTML), [("run_code", {"code": HTML})]),
    "invoke": (f'<invoke name="run_code"><parameter name="code">{CODE}</parameter></invoke>', RUN),
    "tags": (f"<run_code><code>{CODE}</code></run_code>", RUN),
    "a question": (json.dumps({"name": "ask_user", "arguments": ASKED}), [("ask_user", ASKED)]),
    "an end": (f"<return_done><summary>{DONE['summary']}</summary></return_done>", END),
    "an end in Python": ('```python\nreturn_done("The sum is 3.")\n```', END),
    "Gemma": ('```tool_code\nask_user("Which?", choices=["a", "b"])\n```', [("ask_user", ASKED)]),
    "Python and an end": (
        f"```python\n{CODE}\n```\nDone:\n```python\nreturn_done('The sum is 3.')\n```",
        RUN + END,
    ),
    "an end of computed words": (
        "```python\nreturn_done(str(x))\n```",
        [("run_code", {"code": "return_done(str(x))"})],
    ),
    "words": ("I would sum the list with sum(x).", []),
    "other JSON": ('The file holds {"name": "Ann", "code": 7, "city": "Rome"}.', []),
    "another tool": ('{"name": "send_mail", "arguments": {"to": "ann"}}', []),
    "a shell": ("```bash\npip install pandas\n```", []),
    "a table": ("```\n a  b\n 1  2\n```", []),
    "an empty fence": ("```python\n```", []),
    "broken JSON": ('{"name": "run_code", "arguments": {"code": ', []),
    "nothing": ("", []),
    "an opening over and over": ("<run_code><code>" * 6_000, []),
    "many brackets": ("[{" * 50_000, []),
    "a tag of a page": ("Use <code>x</code> and <summary>y</summary>.", []),
}


def tools() -> Tools:
    return Tools([*code_tools(CodeExecutor(), timeout_s=30).values()]) + termination_tools()


def found(message: Message, before: list[Any] | None = None) -> list[tuple[str, Any]]:
    calls, _ = written_calls(message, tools(), before or [])
    return [(each.function.name, json.loads(each.function.arguments)) for each in calls]


@pytest.mark.parametrize(("text", "meant"), WRITTEN.values(), ids=WRITTEN)
def test_written_call_is_executed(text: str, meant: list[Any]) -> None:
    assert found(Message(text)) == meant


@pytest.mark.parametrize("name", ["a fence", "JSON", "Qwen coder"])
def test_call_in_reasoning_runs_if_text_is_empty(name: str) -> None:
    text, meant = WRITTEN[name]
    assert found(Message(None, reasoning_content=text)) == meant
    assert found(Message("The sum is 3.", reasoning_content=text)) == []


@pytest.mark.parametrize(
    ("code", "call_id", "is_called"),
    [
        ("other()", "written_1_0", True),
        (CODE.replace("\n", "\n\n"), "written_1_0", False),
        ("other()", "call_1", False),
    ],
)
def test_fence_is_shown_after_running(code: str, call_id: str, is_called: bool) -> None:
    function = {"name": "run_code", "arguments": json.dumps({"code": code})}
    before = [{"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]}]
    assert bool(found(Message(WRITTEN["a fence"][0]), before)) is is_called


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a fence", "Here is the code:\n\n\nIt prints the sum."),
        ("JSON in words", "I call  now."),
        ("Hermes", ""),
    ],
)
def test_text_remains_without_the_call(name: str, words: str) -> None:
    _, rest = written_calls(Message(WRITTEN[name][0]), tools(), [])
    assert rest == words


# Models that call tools badly: in words, in several dialects, with ids of every form.


async def test_text_only_model_completes_turns(scripted: Any) -> None:
    """No answer of it is a call; it computes and ends all the same."""
    html, end = WRITTEN["Qwen coder with HTML in it"][0], WRITTEN["an end in Python"][0]
    answers = (WRITTEN["a fence"][0], "The sum is 3.", html, end)
    model = ScriptedModel([say(each) for each in answers], "weak")
    session = scripted(model=model)
    for request in ("sum the list", "keep a page"):
        ended = (await gather(session.turn(request, cell_key=request)))[-1]
        assert isinstance(ended, RunCompleted), ended
        assert ended.summary == "The sum is 3."
    model.assert_exhausted()
    assert {"x", "p"} <= session.executor.variables().keys()


async def test_call_ids_may_change_form() -> None:
    """Each call runs once, and each request is one that a strict provider takes."""
    ids = ["call_1", "toolu_01ABC", "", "call_1", "0", "functions.run_code:3", "ünï cöde " * 20]
    codes = [raw_call("run_code", json.dumps({"code": f"n{i} = {i}"}), call_id=each)
             for i, each in enumerate(ids)]  # fmt: skip
    ended: list[Completion] = [raw_call("return_done", '{"summary": "Done."}', call_id="x")]
    with LoopbackProvider([*codes, *ended]) as server:
        config: dict[str, Any] = {"model": "openai/gpt-5", "api_key": "k-123456"}
        agent = Agent({**config, "api_base": server.url})
        events = await gather(agent.run("count"))
        server.assert_exhausted()
    assert isinstance(events[-1], RunCompleted)
    ran = [each for each in events if isinstance(each, ToolEvent) and each.completed]
    assert [each.ok for each in ran] == [True] * (len(ids) + 1)
    assert agent.code_executor.variables() == {f"n{i}": i for i in range(len(ids))}
