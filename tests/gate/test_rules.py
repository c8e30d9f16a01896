"""A rule that can be judged before an action is kept; any other is a reminder."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.prompts import PINNED_CONSTRAINTS
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import Action, FailureKind
from parsimony_kernel.core.taxonomy import FailureType, Step
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.rules import breach_of, within_rules
from parsimony_kernel.gate.stages import STAGES, Attempt
from parsimony_kernel.patterns.pinned import CRITICAL_CONSTRAINTS
from parsimony_kernel.toolbox.plan import plan_tools
from parsimony_kernel.tools import Tools, tool
from parsimony_kernel.triage.classify import from_messages


@tool(tool_type="code")
async def run_code(code: str, purpose: str = "") -> str:
    """Run code."""
    return code


@tool
async def search(text: str) -> str:
    """Search."""
    return text


@tool
async def fetch(url: str) -> str:
    """Fetch."""
    return url


@tool
async def delete_order(id: int) -> str:
    """Delete an order."""
    return str(id)


TOOLS = Tools([run_code, search, fetch, delete_order]) + plan_tools() + termination_tools()


def is_refused(rule: str, name: str, made: Sequence[Step] = (), **args: Any) -> bool:
    stage = within_rules([rule], lambda: made)
    return stage(Attempt(name, args, TOOLS)) is not None


@pytest.mark.parametrize(
    ("rule", "name", "args"),
    [
        ("Never call `delete_order`.", "delete_order", {"id": 1}),
        ("Please do not call delete_order or search.", "search", {"text": "tea"}),
        ("Use only search and fetch.", "run_code", {"code": "1"}),
        ("You may only call the tools `search`, `fetch`.", "delete_order", {"id": 1}),
        ("Never delete orders.", "delete_order", {"id": 1}),
        ("Never import os.", "run_code", {"code": "x = 1\nimport os"}),
        ("Do not use eval or exec.", "run_code", {"code": "exec('1')"}),
        ("Avoid using `eval`.", "run_code", {"code": "list(map(eval, texts))"}),
        ("Never use `os.system`.", "run_code", {"code": "import os\nos.system('ls')"}),
        ("Never call `refund`.", "run_code", {"code": "shop.refund(1)"}),
        ("Do not use `read_csv()`.", "run_code", {"code": "pd.read_csv('x')"}),
        ("Never use `pandas`.", "run_code", {"code": "%time from pandas import read_csv"}),
        ("Never import warnings.", "run_code", {"code": "import warnings"}),
        ("Do not use `sales.csv`.", "fetch", {"url": "data/sales.csv"}),
        ("Do not use pandas: `polars` is here.", "run_code", {"code": "import pandas"}),
        ("Never call fetch because search finds it.", "fetch", {"url": "x"}),
        ("Never delete anything.", "delete_order", {"id": 1}),
        ("No calls to `search`.", "search", {"text": "tea"}),
        ("Avoid importing numpy or torch.", "run_code", {"code": "import torch.nn"}),
        ("Never run code.", "run_code", {"code": "1"}),
        ("`DROP TABLE`", "search", {"text": "drop table"}),
        ("Summarize in no more than 3 words.", "return_done", {"summary": "It is a lot."}),
        ("The summary has at most 3 words.", "return_done", {"summary": "It is a lot."}),
        ("No pandas.", "run_code", {"code": "import pandas as pd"}),
        ("Do not load files from data/old.", "run_code", {"code": "open('data/old/x.csv')"}),
        ("DROP TABLE", "run_code", {"code": "sql = '''\ndrop table x'''"}),
        ("Never DROP TABLE.", "search", {"text": "DROP TABLE x"}),
        ("Do not use read_csv, use read_parquet.", "run_code", {"code": "pd.read_csv('x')"}),
        ("Say it in metres. Never import os.", "run_code", {"code": "import os"}),
        ("Answer in at most 3 words.", "return_done", {"summary": "It is a lot."}),
        ("Answer in under 10 characters.", "return_done", {"summary": "0123456789"}),
        ("Do not mention `salary` or `bonus`.", "return_done", {"summary": "The bonus is 3."}),
    ],
)
def test_what_breaks_a_rule_for_sure_is_refused(rule: str, name: str, args: dict[str, Any]) -> None:
    assert is_refused(rule, name, **args)


@pytest.mark.parametrize(
    ("rule", "name", "args"),
    [
        ("Never call `delete_order`.", "run_code", {"code": "orders"}),
        ("Use only search and fetch.", "fetch", {"url": "x"}),
        ("Never delete orders.", "search", {"text": "delete orders"}),
        ("Never import os.", "run_code", {"code": "import osmnx  # os is not needed"}),
        ("No pandas.", "run_code", {"code": "1", "purpose": "without pandas"}),
        ("Do not use read_csv, use read_parquet.", "run_code", {"code": "pd.read_parquet('x')"}),
        ("Answer in at most 3 words.", "return_done", {"summary": "A whole lot"}),
        ("Answer in at most 3 words.", "run_code", {"code": "a = 1 + 2 + 3"}),
        ("Do not mention `salary`.", "run_code", {"code": "df['salary'].mean()"}),
        ("Do not mention `salary`.", "return_done", {"summary": "I did not look at `salary`."}),
        ("Never call `refund`.", "run_code", {"code": "df['refund'].sum()"}),
        ("Never call `refund`.", "run_code", {"code": "print('refund rate', df.refund)"}),
        ("Never call `refund`.", "search", {"text": "refund policy"}),
        ("Never use pandas.", "run_code", {"code": "x = 'pandas'"}),
        ("Do not use pandas.", "run_code", {"code": "print('pandas is not used')"}),
        ("Never use `plots`.", "run_code", {"code": "plots = None"}),
        ("Never use `index`.", "run_code", {"code": "df.to_csv('o.csv', index=False)"}),
        ("Never call fetch because search finds it.", "search", {"text": "tea"}),
        ("Do not use pandas: `polars` is here.", "run_code", {"code": "import polars"}),
        ("Never delete anything.", "search", {"text": "anything"}),
        # What is not to be changed may be read.
        ("Do not modify `sales`.", "run_code", {"code": "sales.head()"}),
    ],
)
def test_what_keeps_a_rule_is_not_refused(rule: str, name: str, args: dict[str, Any]) -> None:
    assert not is_refused(rule, name, **args)


@pytest.mark.parametrize(
    "rule",
    [
        *PINNED_CONSTRAINTS,
        *CRITICAL_CONSTRAINTS,
        "Never call `delete_order` unless the person asked for it.",
        "Never call `delete_order` for customers of ours.",
        "Do not use `price` without its currency.",
        "Use only metric units.",
        "Only call run_code for reading files.",
        "If a value is not in `allowed`, ask.",
        "Never use global variables.",
        "Do not overwrite df_raw.",
        "Avoid using loops.",
        "Never reveal prices.",
        # A plain word says too little to find it in code.
        "No index.",
        "No grid.",
        "No header",
        "No NaN.",
        "No duplicates",
        "No warnings",
        "No secrets",
        "No keys",
        "No totals",
        "No plots.",
        "No problem.",
        "Never load data",
        "Do not use lists",
        "Do not use joins, maps, formats, sets, types or filters.",
        "Do not use built-in or third-party things.",
        # What is named need not be what is forbidden.
        "No need to call `search`",
        "No problem, `df` may be changed",
        "Don't forget to call `search`.",
        "Do not call `delete_order`, `search` first",
        "Do not use `pandas` merges.",
        "Units: km; EUR; USD",
        "Report in:\nEUR\nUSD",
        "Read only these:\n`sales.csv`",
        "Do not include code.",
        "Don't promise results.",
        "Do not mention errors.",
        "Never claim causation.",
        "Never claim that `sales` rose.",
        # A limit of a part of it, or from below.
        "Titles have at most 8 words.",
        "Keep summary bullets under 10 words",
        "Start the answer with a headline of at most 8 words",
        "The answer's title has at most 5 words",
        "Responses from `search` are cut at max 500 characters",
        "Explain the method in at most 3 steps",
        "Plan at most 3 steps ahead",
        "The service allows at most 3 calls.",
        "Answer in no fewer than 50 words.",
        "Make no less than 3 calls.",
        "Do not answer in under 50 words.",
        "Use at most 3 calls per order.",
        "Say it in metres.",
        "never",
        "",
    ],
)
def test_what_holds_only_sometimes_or_cannot_be_told_is_a_reminder(rule: str) -> None:
    assert breach_of(rule, TOOLS) is None


def answered(*calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, (name, answer) in enumerate(calls):
        function = {"name": name, "arguments": "{}"}
        messages += [
            {"role": "assistant", "tool_calls": [{"id": str(number), "function": function}]},
            {"role": "tool", "tool_call_id": str(number), "content": json.dumps(answer)},
        ]
    return messages


RAN = {"result": 1, "valid_next_actions": []}
RAISED = {"error": "action_error", "message": "it broke"}
REFUSED = {"error": "validation_failed", "message": "no"}
SKIPPED = {"error": "not_run", "message": "no"}


@pytest.mark.parametrize(
    ("rule", "calls", "refused"),
    [
        ("At most 2 tool calls.", [("search", RAN)], False),
        ("At most 2 tool calls.", [("search", RAN), ("fetch", RAN)], True),
        ("At most 2 tool calls.", [("search", RAN), ("fetch", RAISED)], True),
        ("At most 2 tool calls.", [("search", RAN), ("fetch", REFUSED)], False),
        ("At most 2 tool calls.", [("search", RAN), ("fetch", SKIPPED)], False),
        ("At most 2 tool calls.", [("search", RAN), ("ask_user", RAN)], False),
        ("At most 2 tool calls.", [("search", RAN), ("plan", RAN)], False),
        ("Take at most 1 step.", [("search", RAN)], True),
        ("Make fewer than 2 calls.", [("search", RAN)], True),
        ("At most 1 call of search.", [("fetch", RAN), ("fetch", RAN)], False),
        ("At most 1 call of search.", [("search", RAN)], True),
    ],
)
def test_a_limit_counts_the_calls_that_ran(
    rule: str, calls: list[tuple[str, dict[str, Any]]], refused: bool
) -> None:
    made = from_messages(answered(*calls))
    assert is_refused(rule, "search", made, text="tea") is refused


def test_the_call_that_is_asked_about_is_not_counted_before_it_ran() -> None:
    waiting = [answered(("search", RAN))[0]]
    assert not is_refused("At most 1 tool call.", "search", from_messages(waiting), text="tea")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("return_done", {"summary": "ok"}),
        ("return_unable", {"rationale": "no", "blockers": ["search `x`"]}),
        ("ask_user", {"question": "May I call `x`?"}),
        ("plan", {"parts": ["call `x`", "search"]}),
    ],
)
@pytest.mark.parametrize(
    "rule", ["At most 1 tool call.", "Use only search.", "Never call `x`.", "Never mention `x`."]
)
def test_no_rule_about_calls_keeps_a_run_from_planning_or_ending(
    rule: str, name: str, args: dict[str, Any]
) -> None:
    made = from_messages(answered(("search", RAN), ("search", RAN)))
    assert not is_refused(rule, name, made, **args)


async def test_the_stage_names_the_rule_and_lets_the_model_try_otherwise() -> None:
    rules = ("Say it in metres.", "Never call `delete_order`.")
    gate = Gate(TOOLS, timeout_s=5, stages=(*STAGES, within_rules(rules)))
    outcome = await gate.step("delete_order", {"id": 1})
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.policy_violation
    assert outcome.failure.type is FailureType.CONSTRAINT_IGNORED
    assert outcome.failure.suggested_action is Action.retry
    assert outcome.is_guidance
    assert outcome.envelope["error"] == "validation_failed"
    assert outcome.envelope["details"] == {"rule": rules[1]}
    assert rules[1] in outcome.envelope["message"]
    assert outcome.envelope["valid_next_actions"] == list(TOOLS)
    assert (await gate.step("search", {"text": "tea"})).ok


@given(
    rule=st.lists(
        st.sampled_from(
            [
                *("never", "no", "only", "use", "call", "at most", "3", "calls", "words", "and"),
                *("`x`", "x_y", ",", ".", ";", "'", "mention", "DROP", "search", "for", "\n"),
            ]
        ),
        max_size=12,
    ).map(" ".join)
    | st.text(max_size=60)
)
def test_any_text_is_a_rule_or_a_reminder_and_a_run_can_always_end(rule: str) -> None:
    is_refused(rule, "run_code", code="x_y = 'DROP'")
    assert not is_refused(rule, "ask_user", question=rule or "?")
