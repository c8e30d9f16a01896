"""What tests of reports publish, and what a browser would make of the page."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any

import pandas as pd

from parsimony_kernel.artifacts.publish import Kind, Published, Publisher
from parsimony_kernel.artifacts.reports import LINKS
from parsimony_kernel.artifacts.store import LogEntry, UnknownArtifactError
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.identity import ArtifactRef, content_sha
from parsimony_kernel.lineage.ledger import VariableOrigin

SHA = content_sha(b"chart")


def entry_of(words: str) -> LogEntry:
    return LogEntry(kind="chart", logical_id=content_sha(words.encode()), content_sha=SHA,
                    title=f"About {words}")  # fmt: skip


def find(words: str) -> ArtifactRef:
    if words.startswith("no"):
        raise UnknownArtifactError(f"There is no artifact {words!r}.")
    return entry_of(words).ref


FRAME = pd.DataFrame({"month": pd.date_range("2024-01-01", periods=12, freq="MS"), "t": range(12)})


def origin(name: str, code: str = "", **more: Any) -> VariableOrigin:
    """A variable that the agent made in ``work.ipynb`` of ``data.csv``, or as ``more`` says."""
    code = code or f"{name} = made()"
    usual: dict[str, Any] = {
        "version": 1,
        "actor": "agent",
        "notebook_path": "work.ipynb",
        "cell_id": f"cell {code}",
        "run_id": "r",
        "code_sha": content_sha(code.encode()),
        "sources": ("data.csv",),
    }
    return VariableOrigin(**{"name": name, "code": code, **usual, **more})


class Clean(CodeExecutor):
    """A namespace of this process as a clean place, where no kernel has to start."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    async def execute(self, code: str, *args: Any, **options: Any) -> KernelOutput:
        self.ran.append(code)
        return await super().execute(code, *args, **options)

    async def value(self, name: str) -> Any:
        return self.variables()[name]


@asynccontextmanager
async def clean() -> AsyncIterator[Clean]:
    yield Clean()


def publish(publisher: Publisher, kind: Kind, value: Any, name: str, **more: Any) -> Published:
    """Publish the variable ``name``, which was made in one cell."""
    usual = {"title": name.title(), "lineage": [origin(name)], "run_id": "r"}
    return publisher.publish(kind, value, variable=name, **usual | more)


def publish_table(publisher: Publisher, frame: pd.DataFrame = FRAME, **columns: Any) -> Published:
    made = frame.assign(**columns)
    script = "monthly = made()  # <all>"
    return publish(publisher, "dataset", made, "monthly", title="By month", script=script)


BODY = "Some words.\n\n![Mean *t*](artifact:curve)\n\nSee [the table](artifact:monthly).\n"


def report(publisher: Publisher, body: str = BODY, title: str = "T") -> Published:
    return publisher.publish("report", body, title=title, run_id="r")


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


_HARMLESS = set(
    re.findall(
        r"\w+",
        "html head meta title style body main footer h1 h2 h3 h4 h5 h6 p a em strong s "
        "code pre hr br ul ol li blockquote table thead tbody tr th td figure figcaption "
        "img div dl dt dd details summary time span",
    )
)


def assert_harmless(page: str) -> Seen:
    seen = Seen(page)
    assert {tag for tag, _ in seen.tags} <= _HARMLESS
    for tag, attributes in seen.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert set(attributes) <= {
            "lang", "charset", "http-equiv", "content", "name", "href", "rel", "id", "class",
            "scope", "src", "alt", "title", "datetime", "tabindex", "role", "aria-label", "style",
            "start",
        }  # fmt: skip
        assert str(attributes.get("style", "")) in {
            "", "text-align:left", "text-align:right", "text-align:center"
        }  # fmt: skip
    assert all(str(each["src"]).startswith("data:image/") for each in seen.all("img"))
    for each in seen.all("a"):
        assert str(each.get("href", "#")).lower().startswith(LINKS)
    levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    return seen


def page_of(publisher: Publisher, published: Published) -> str:
    return (publisher.store.root / published.page).read_text()
