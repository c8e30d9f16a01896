"""The direction of imports, and what the first one costs.

DESIGN section 2: an import never goes up, not even inside a function.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "parsimony_kernel"

# From the bottom up. A module belongs to the longest name that it begins with. Modules of one
# rank may import one another; what a rank is not to import of its own is in APART.
RANKS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "",
            "clock",
            "tools",
            "agent.cancellation",
            "agent.config",
            "agent.events",
            "agent.failure.causes",
            "agent.failure.kinds",
            "agent.models",
            "agent.outputs",
            "agent.state",
            "execution.outputs",
            "gate.effects",
            "gate.refusal",
            "llm.base",
            "triage.taxonomy",
        }
    ),
    frozenset(
        {
            "durable",
            "identity",
            "likeness",
            "lineage.kinds",
            "lineage.known_calls",
            "lineage.snapshot",
            "lineage.syntax",
        }
    ),
    frozenset({"artifacts", "journal", "limits", "lineage"}),
    frozenset({"execution", "llm"}),
    frozenset({"agent.failure", "agent.prompts", "gate", "toolbox", "triage"}),
    frozenset({"agent", "metrics", "view"}),
    frozenset({"display", "headless", "notebook", "session"}),
    frozenset(
        {
            "__main__",
            "audit",
            "cli",
            "commands",
            "demo",
            "doctor",
            "kernel",
            "parsimony_agent",
            "resume",
            "upkeep",
        }
    ),
)
VALUES = RANKS[0]
# These see the values and nothing else of the package.
OBSERVERS = ("view", "metrics")
# Doubles for tests of everything below the session.
TESTING = "testing"

# A promised name of document 002 that stands in a module of values; resolved only when asked for.
EXCEPTIONS = {("agent.state", "agent.failure.suspension")}

# Where the specification imports from a sub-package, its __init__ exports lazily.
EXPORTING = {"agent.failure", "execution", "doctor"}


def modules() -> Iterator[tuple[str, Path]]:
    for base, root in ((ROOT, PACKAGE), (ROOT / "extension", "parsimony_agent")):
        for path in sorted((base / root).rglob("*.py")):
            parts = list(path.relative_to(base).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            if parts[0] == PACKAGE:
                parts.pop(0)
            yield ".".join(parts), path


MODULES = dict(modules())


def rank(module: str) -> int:
    if module.startswith(TESTING):
        return len(RANKS) - 2
    name = module
    while True:
        for number, members in enumerate(RANKS):
            if name in members:
                return number
        if not name:
            raise AssertionError(f"{module!r} has no rank")
        name = name.rpartition(".")[0]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of ours that a file imports anywhere in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if is_module(name) else node.module for name in inner]
        for name in names:
            assert isinstance(node, ast.stmt)
            if name == PACKAGE or name.startswith(PACKAGE + "."):
                yield name.removeprefix(PACKAGE).removeprefix("."), node.lineno
            elif name.split(".")[0] == "parsimony_agent":
                yield name, node.lineno


def is_module(name: str) -> bool:
    return name.removeprefix(PACKAGE + ".") in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_lies_below_it(module: str) -> None:
    for other, line in imported(MODULES[module]):
        if (module, other) in EXCEPTIONS or (module == "" and other in MODULES):
            continue  # the top package names its public modules, lazily
        assert rank(other) <= rank(module), (
            f"{module} (line {line}) imports {other}, which lies above it: move what is needed "
            "down, or hand it in from above"
        )
        if module.startswith(OBSERVERS):
            own = other.split(".")[0] == module.split(".")[0]
            assert own or rank(other) == 0, (
                f"{module} (line {line}) imports {other}: observers see events and values only"
            )


@pytest.mark.parametrize(
    "package", [m for m, path in MODULES.items() if path.name == "__init__.py" and "." in "." + m]
)
def test_a_sub_package_s_init_is_a_docstring(package: str) -> None:
    if package in {"", "parsimony_agent"} or package in EXPORTING:
        return
    body = ast.parse(MODULES[package].read_text()).body
    assert [type(node) for node in body] == [ast.Expr], (
        f"{package}/__init__.py holds code: move it into a module that says what it owns"
    )


def loaded_by(statement: str) -> set[str]:
    program = (
        f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


def test_importing_the_package_costs_next_to_nothing() -> None:
    foreign = {
        name
        for name in loaded_by("import parsimony_kernel")
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    assert len(foreign) < 40, sorted(foreign)


def test_loading_the_extension_imports_nothing_heavy() -> None:
    loaded = loaded_by("import parsimony_agent; parsimony_agent.load_ipython_extension")
    heavy = {"pydantic", "pandas", "ipywidgets", "litellm", "altair", "pyarrow"}
    assert not heavy & {name.split(".")[0] for name in loaded}


@pytest.mark.parametrize("statement", ["import parsimony_kernel.session"])
def test_a_session_does_without_the_provider_s_library(statement: str) -> None:
    assert "litellm" not in loaded_by(statement)


def test_every_public_name_resolves() -> None:
    import parsimony_kernel

    for name in parsimony_kernel.__all__:
        assert getattr(parsimony_kernel, name) is not None
