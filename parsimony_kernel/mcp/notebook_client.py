"""Actions of an MCP client in a notebook, run inside the notebook's kernel.

Rule: a client sees only what a model would see (``--share``), its turns ask before every step, and
side effects outside the notebook can be approved in the notebook only.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from parsimony_agent import commands
from parsimony_agent.arguments import CellRequest
from parsimony_agent.options import options_of
from parsimony_agent.pending import TurnError
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.context import TurnContext
from parsimony_kernel.session.share import KEPT_OF_A_STEP, Share
from parsimony_kernel.session.turn_values import (
    TurnOptions,
    held_lines,
    reaches_outside,
    resolve_turn,
)
from parsimony_kernel.storage.journal import PendingRow
from parsimony_kernel.view.blocks import lasting
from parsimony_kernel.view.escape import shortened
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.plain_text import record_of

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics

MIME = "application/vnd.parsimony.mcp+json"
_MOST_CHARS = 24_000
Answer = dict[str, Any]


async def serve(action: str, client: str, given: Mapping[str, str]) -> None:
    """Run an action for ``client`` and display the answer as JSON.

    Args:
        action: a method of ``_Visit``.
        client: the client's name.
        given: the action's arguments.

    Raises:
        TurnError: the action is impossible; the message is one sentence.
    """
    from IPython.display import display

    from parsimony_agent.extension import here

    magics = here()

    async def act(_: Any, stop: CancellationRequest) -> None:
        answer = await getattr(_Visit(magics, client), action)(**given)
        display({MIME: answer}, raw=True)

    await magics.run(act)


class _Visit:
    """The actions of a client in a notebook."""

    def __init__(self, magics: "AgentMagics", client: str) -> None:
        self._magics = magics
        self._client = client
        self._session = magics.session

    def _options(self, request: str = "") -> TurnOptions:
        chosen = options_of(CellRequest(request), self._magics.settings)
        return replace(chosen, approve=Approval.ask, asked_by=self._client)

    async def ask(self, request: str) -> Answer:
        """Run a turn."""
        self._magics.follow_settings()
        key = f"mcp-{uuid4().hex[:12]}"
        await _through(self._session.turn(request, cell_key=key, options=self._options(request)))
        return self._turn(self._session.turns()[-1].run_id)

    async def answer(self, reply: str, turn: str = "") -> Answer:
        """Answer the question of a turn, the newest by default."""
        asking = self._session.pending()
        if turn:
            turn_id = resolve_turn(self._session.turns(), turn).run_id
            asking = tuple(each for each in asking if each.turn.run_id == turn_id)
        if not asking:
            raise TurnError("No question waits for this answer.")
        record = asking[0].record
        if reaches_outside(record):
            raise TurnError(f"{record.pending_question} {self._where()}")
        await _through(self._session.resume(reply, turn_id=record.run_id, nonce=record.nonce))
        return self._turn(record.run_id)

    async def undo(self, turn: str = "") -> Answer:
        """Undo a turn, the newest by default."""
        return {"text": str(commands.undo(self._magics, turn or None))}

    async def why(self, name: str) -> Answer:
        """Explain the provenance of a variable."""
        return self._told(lambda: self._session.past.why(name).text(), Share.schema)

    async def variables(self) -> Answer:
        """List variables, files and artifacts as a model's context does."""
        return {"text": TurnContext(self._session, self._options().share).inventory()[0]}

    async def record(self, turn: str = "") -> Answer:
        """Return the record of a turn, the newest by default."""
        return self._turn(resolve_turn(self._session.turns(), turn or None).run_id)

    async def artifacts(self) -> Answer:
        """List the published artifacts."""
        found = self._session.artifacts()
        lines = [f"{each.kind} {each.title!r}: {each.path}" for each in found]
        return self._told(lambda: "\n".join(lines) or "Nothing is published yet.", Share.schema)

    def _turn(self, turn_id: str) -> Answer:
        """Return a turn's status and record, and its question if it waits for one."""
        turn = resolve_turn(self._session.turns(), turn_id)
        asking = [each for each in self._session.pending() if each.turn.run_id == turn_id]
        blocks = lasting(replay(self._session.events(turn_id)).blocks)
        answer = self._told(lambda: record_of(blocks), Share.samples)
        answer["text"] = f"Turn {turn.ordinal}: {turn.status}.\n{answer['text']}"
        return {**answer, "question": self._question(asking[0])} if asking else answer

    def _question(self, waiting: PendingRow) -> Answer:
        asked = waiting.record
        held = "\n".join(held_lines(asked.pending_call))
        words = filter(None, (asked.pending_question, asked.pending_question_context, held))
        where = self._where() if reaches_outside(asked) else ""
        return {
            "turn": asked.run_id,
            "words": "\n\n".join(words),
            "choices": list(asked.choices),
            "in_notebook": where,
        }

    def _where(self) -> str:
        return f"This is allowed in the notebook only: {self._magics.name} answer"

    def _told(self, tell: Callable[[], str], least: Share) -> Answer:
        """Return the text of ``tell`` if the privacy setting allows ``least``, else a refusal."""
        share, order = self._options().share, list(Share)
        if order.index(share) > order.index(least):
            return {"text": KEPT_OF_A_STEP[share]}
        return {"text": shortened(tell(), _MOST_CHARS)}


async def _through(events: AsyncIterator[AgentEvent]) -> None:
    """Run a turn to its end or its next question; the journal records the events."""
    async for _ in events:
        pass
