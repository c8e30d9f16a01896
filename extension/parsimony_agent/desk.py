"""What the sub-commands of ``%agent`` work with, and how what they tell is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from parsimony_agent.outlet import Outlet, TextOutlet, outlet_of
from parsimony_agent.tables import words
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.view.escape import plain

if TYPE_CHECKING:
    from parsimony_agent.arguments import Command
    from parsimony_agent.cell import Cells
    from parsimony_agent.sessions import Session
    from parsimony_agent.settings import ParsimonyAgent
    from parsimony_agent.turns import Turns
    from parsimony_agent.user_cells import UserCells

# A text, a mime bundle, several, or nothing.
Told = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None


@dataclass(frozen=True)
class Desk:
    """One call of a sub-command.

    ``magic`` is the magic as it is written, ``open_session`` and ``open_turns`` open what they
    name when it is first needed, ``is_open`` says whether that has happened. ``follow_settings``
    takes up a model that was set since. ``stop`` is set when Stop is pressed while the sub-command
    awaits.
    """

    shell: Any
    magic: str
    open_session: Callable[[], Session]
    open_turns: Callable[[], Turns]
    follow_settings: Callable[[], None]
    is_open: Callable[[], bool]
    user_cells: UserCells
    cells: Cells
    environ: Mapping[str, str]
    settings: ParsimonyAgent
    stop: CancellationRequest = field(default_factory=CancellationRequest)

    @property
    def session(self) -> Session:
        """The session of this notebook."""
        return self.open_session()

    @property
    def turns(self) -> Turns:
        """The turns that this process shows."""
        return self.open_turns()

    @property
    def outlet(self) -> Outlet:
        """Where the cell that runs now is written to."""
        return outlet_of(self.shell)

    def show(self, told: Told) -> None:
        """Show what a sub-command tells. A text is never taken for a link or for markup."""
        if told is None:
            return
        outlet = self.outlet
        for each in (told,) if isinstance(told, str | Mapping) else told:
            if not isinstance(each, str):
                outlet.show(each)
            elif isinstance(outlet, TextOutlet):
                print(plain(each).rstrip("\n"))
            else:
                outlet.show(words(each))


def doer(command: Command) -> Callable[..., Any]:
    """Who does ``command``; imported when it is first called."""
    module, _, function = command.run.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"parsimony_agent.{module}"), function)
    return found
