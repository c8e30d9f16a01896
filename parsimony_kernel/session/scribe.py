"""Writing a turn down, and what its end is called."""

from parsimony_kernel.agent.redaction import without_secrets
from parsimony_kernel.core.events import (
    AgentEvent,
    Handoff,
    PartialRunSummary,
    RunCompleted,
    TextDelta,
    UserInputRequested,
)
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.storage.store import SqliteJournal


class Scribe:
    """Writes events down, prose in whole pieces, and nothing of ``secrets``."""

    def __init__(self, journal: SqliteJournal, run_id: str, secrets: Secrets) -> None:
        self._journal = journal
        self._run_id = run_id
        self._secrets = secrets
        self._words: list[str] = []

    def write(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            self._words.append(event.content)
            return
        self.flush()
        self._journal.append(self._run_id, without_secrets(event, self._secrets))

    def flush(self) -> None:
        if self._words:
            words, self._words = "".join(self._words), []
            self._journal.append(self._run_id, TextDelta(content=self._secrets.clean(words)))


def ending(event: AgentEvent) -> tuple[str, str]:
    """The status of the turn that ``event`` ends, and the words that sum it up."""
    match event:
        case RunCompleted():
            return "done", event.summary
        case UserInputRequested():
            return "suspended", event.question
        case Handoff():
            return "handed_off", event.rationale
        case PartialRunSummary():
            return "stopped", event.missing
        case _:
            return "cancelled", getattr(event, "reason", "")
