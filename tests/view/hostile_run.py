"""A run in which every field that can be foreign holds the same words."""

import base64
from typing import Any

from record_events import asked_model, code, figure, published, question, started, trouble

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure, FailureKind

WORDS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><button data-commandlinker-command="x" data-commandlinker-args="{}">go</button>',
    "' onfocus=alert(1) autofocus tabindex=1 style=position:fixed x='",
    "[click](javascript:alert(1)) ![i](https://example.com/x.png)",
    "x\n\n![i](https://example.com/x.png) [c](https://example.com)\n\n# h\n\n- a\n\n    b",
    "x\n \t\n<https://example.com> www.example.com https://example.com a@example.com\n\n---",
    "x\r\n\r\n[a]: https://example.com\r\n\r\n[a] ![a]\x0b\x0c\x85\u2028\u2029[a](//example.com)",
    "\u00a0\n\u3000\n<a href=//example.com>a</a>\n\u00a0\n<b>",
    "-->\n\n]]>\n\n?>\n\n<!--\n\n<a href=x>",
    "\x1b[31mred\x1b]8;;https://example.com\x07link\x1b]8;;\x07\x9b2J\x1b]0;t\x1b\\",
    "\u202egnp.exe\u2066 \x00 \ud800 \ufeff\u061c",
    "\x000\x00 \x001\x00",
    "``` \n</pre></code></details>\n````",
    "| a | b |\n|---|---|\n$x$ {x} &lt;b&gt; &#60;b&#62; https://example.com www.example.com",
    "</style><style>*{display:none}</style>",
    "1. a\n2. b\n\n> c\n\n```\nd\n```\n\n[e](f)",
]


def run_of(words: str) -> list[ev.AgentEvent]:
    """Every kind of event and of end, with ``words`` in all of their fields."""
    frame: dict[str, Any] = {
        "type": "dataframe",
        "name": words,
        "rows": 1,
        "columns": [{"name": words, "dtype": words, "samples": [words]}],
        "more_columns": [words],
        "preview_columns": [words],
        "preview": [[words]],
    }
    unseen = {**frame, "preview_columns": [], "preview": []}
    value = {"type": "primitive", "python_type": words, "text": words, "truncated": True}
    raised = {
        "type": "exception",
        "name": words,
        "message": words,
        "line": 1,
        "source_line": words,
        "traceback": words,
    }
    picture = {**figure({"title": words}), "title": words, "description": words}
    pixels = {**picture, "spec": None, "png_base64": words, "svg": f"<svg>{words}"}
    drawing = {**picture, "spec": None, "svg": f"<svg onload='{words}'>{words}</svg>"}
    png = base64.b64encode(words.encode("utf-8", "replace")).decode()
    forged = {**picture, "spec": None, "png_base64": f"iVBORw0KGgo{png}"}
    failure = Failure(FailureKind.no_progress, words, (words, words))

    def tool(kind: str, result: dict[str, Any], **fields: Any) -> list[ev.AgentEvent]:
        begun = ev.ToolEvent(
            tool_name=words,
            tool_call_id=f"{kind}-{words}",
            tool_type=kind,
            arguments={words: words, "title": words, "nested": {words: [words]}},
        )
        return [begun, begun.model_copy(update={"completed": True, "result": result, **fields})]

    begun, ended = code(words, "c3")
    return [
        started(words, shared=(words,), notice=words, approve=words, procedure=words),
        ev.TextDelta(content=words),
        ev.ReasoningDelta(content=words),
        *code(
            words,
            stdout=words,
            stderr=words,
            outputs=[frame, unseen, value, picture, pixels, drawing, forged],
            deleted=[words],
            overwritten=[words],
        ),
        *code(words, "c2", stdout=words, outputs=[raised]),
        begun,
        ended.model_copy(
            update={"ok": False, "result": {"error": words, "message": words, "variables": words}}
        ),
        *tool("function", {"result": words, "note": words}, ok=True),
        *tool("function", {"result": {words: [words]}}, ok=True),
        *tool("function", {"error": "validation_failed", "message": words}, ok=False),
        *tool("plan", {"result": {}}, ok=True),
        *tool("publish", {"result": {}}, ok=True),
        *tool("code", {"waiting": words}),
        published({"mark": words}).model_copy(
            update={
                "kind": words,
                "title": words,
                "path": words,
                "page": words,
                "variable": words,
                "figure": picture,
            }
        ),
        trouble().model_copy(update={"message": words, "failure": None, "fallback": words}),
        trouble().model_copy(
            update={"failure": failure, "put_back": words, "strategy": words, "action": words}
        ),
        ev.BudgetWarning(guard=words, used=1, limit=2),
        ev.Heartbeat(model=words, silent_s=20),
        asked_model().model_copy(update={"model": words}),
        ev.StateSnapshot(iteration=1, variables=(words,)),
        question(question=words, context=words, choices=(words, "other")),
        started(words, reply=words, gone=(words,)).model_copy(update={"model": words}),
        ev.PartialRunSummary(missing=words, learned_facts=(words,), next_step_plan=words),
        ev.RunCancelled(message=words),
        ev.RunCancelled(reason=words),
        ev.RunCompleted(summary=words, variables=(words,)),
        ev.Handoff(rationale=words, blockers=(words, "b"), suggested_next_steps=(words,)),
    ]


def loadable(events: list[ev.AgentEvent]) -> list[ev.AgentEvent]:
    """As the journal would give them back: no lone surrogates."""
    return [ev.parse_event(event.model_dump(mode="python")) for event in events]
