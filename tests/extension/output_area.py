"""What a front end makes of displays: an output area in memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_agent.publisher import Outlet


def click(button: Any) -> None:
    """What a front end does with a button."""
    button._handle_button_msg(button, {"event": "click"}, [])


@dataclass
class Display:
    """One output of a cell."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    display_id: str | None

    @property
    def text(self) -> str:
        return str(self.data.get("text/plain", ""))

    @property
    def is_widget(self) -> bool:
        return "application/vnd.jupyter.widget-view+json" in self.data


class OutputArea(Outlet):
    """An outlet that does as JupyterLab does: an update of an unknown display shows nothing."""

    def __init__(self) -> None:
        super().__init__(lambda *_: None)
        self.displays: list[Display] = []
        self.updates = 0

    def show(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        display_id: str | None = None,
        update: bool = False,
    ) -> None:
        if update:
            self.updates += 1
            for display in self.displays:
                if display_id is not None and display.display_id == display_id:
                    display.data, display.metadata = dict(data), dict(metadata or {})
        else:
            self.displays.append(Display(dict(data), dict(metadata or {}), display_id))

    @property
    def texts(self) -> list[str]:
        """The text of every display that shows something."""
        return [display.text for display in self.displays if display.text.strip()]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)
