"""The direction of imports, and what the first one costs.

import-linter reads the statements (``pyproject.toml``, ``make lint``); a module that is named in a
string and imported later is looked at here, against the same layers.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PREFIXES = ("parsimony_kernel.", "parsimony_agent.")
# How a string that names one begins; few files hold one.
STARTS = re.compile(r"[\"']parsimony_(?:kernel|agent)\.")
SOURCES = (ROOT / "parsimony_kernel", ROOT / "extension" / "parsimony_agent")


def layers() -> list[list[str]]:
    """The rooms from the top down; those of one layer are not compared."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    written = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [line.replace("|", ":").split(" : ") for line in written]


def level_of(module: str) -> int | None:
    for level, rooms in enumerate(layers()):
        if any(module == room or module.startswith(f"{room}.") for room in rooms):
            return level
    return None


def named_in_strings() -> Iterator[tuple[str, str]]:
    """Our modules that a string names, each with the module in which it stands."""
    for source in SOURCES:
        for path in source.rglob("*.py"):
            here = ".".join(path.relative_to(source.parent).with_suffix("").parts)
            source_text = path.read_text()
            if not STARTS.search(source_text):
                continue
            for node in ast.walk(ast.parse(source_text)):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and text.startswith(PREFIXES):
                    yield here, text


def test_module_named_in_string_lies_below() -> None:
    found = [(here, named) for here, named in named_in_strings() if level_of(named) is not None]
    assert found
    for here, named in found:
        own, other = level_of(here), level_of(named)
        assert own is None or other is None or own <= other, (
            f"{here} names {named}, which lies above it: hand it in from above"
        )


def loaded_by(statement: str) -> set[str]:
    program = (
        f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


def foreign(statement: str) -> list[str]:
    """The modules that are not of the standard library."""
    loaded = sorted(loaded_by(statement))
    return [name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names]


def test_package_import_is_cheap() -> None:
    assert len(loaded := foreign("import parsimony_kernel")) < 40, loaded


def test_identity_needs_standard_library_only() -> None:
    loaded = foreign("import parsimony_kernel.identity")
    assert {name.split(".")[0] for name in loaded} == {"parsimony_kernel"}


def test_extension_loads_nothing_heavy() -> None:
    loaded = loaded_by("import parsimony_agent; parsimony_agent.load_ipython_extension")
    heavy = {"pydantic", "pandas", "ipywidgets", "litellm", "altair", "pyarrow"}
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_session_works_without_clients() -> None:
    """A client is imported for the first live request, and the MCP package for the first server."""
    loaded = loaded_by("import parsimony_kernel.session.session, parsimony_kernel.agent.resolve")
    assert "parsimony_kernel.llm.chokepoint" in loaded
    assert not {"litellm", "openai", "httpx", "aiohttp", "pandas", "mcp"} & loaded


@pytest.mark.parametrize(
    ("then", "is_compiled"),
    [("", False), ("; assert not jsonschema.FormatChecker().conforms('a b', 'iri')", True)],
)
def test_address_grammar_is_compiled_on_use(then: str, is_compiled: bool) -> None:
    pytest.importorskip("rfc3987_syntax", reason="comes with JupyterLab")
    loaded = loaded_by(
        "from parsimony_kernel.core.deferred import defer_grammar_of_addresses as defer; defer(); "
        f"import jsonschema, rfc3987_syntax{then}"
    )
    assert ("lark" in loaded) is is_compiled


def test_every_public_name_resolves() -> None:
    import parsimony_kernel

    for name in parsimony_kernel.__all__:
        assert getattr(parsimony_kernel, name) is not None
