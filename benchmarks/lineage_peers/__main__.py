"""Lineage and undo beside ipyflow and kishu: cost, staleness, slices, undo, on the same cells.

Each tool has an environment of its own, made here with the versions below, and is used as its
documentation says. Every case is run in a fresh kernel; what a cell costs is measured in two
kernels of the same environment by turns, with the tool and without it. `cells.toml` has the cases
and what is true of them. This file needs the standard library only.

    python -m benchmarks.lineage_peers [--rounds N] [--environments FOLDER] [--only TOOL]

Writes ``results.json`` beside this file and prints the tables of docs/explain/benchmarks.md.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"

# What the cells import is the same everywhere.
SHARED = (
    "ipykernel==7.4.0",
    "ipython==9.18.1",
    "matplotlib==3.11.2",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "scikit-learn==1.9.1",
)
PACKAGES = {
    "parsimony": (str(ROOT),),
    "ipyflow": ("ipyflow==0.0.231",),
    "kishu": ("kishu==0.3.4",),
}
_ROUNDS = 10
_SHOWN = ("pandas", "numpy", "ipython", "ipykernel")


def environment(folder: Path, tool: str) -> Path:
    """The Python of a tool's environment, which is made if it is not there."""
    place = folder / tool
    python, made = place / "bin" / "python", place / "made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *SHARED, *PACKAGES[tool]]
        subprocess.run(install, check=True)
        made.touch()
    return python


def versions(python: Path, tool: str) -> dict[str, str]:
    """What is installed of that which matters."""
    asked = ["parsimony-kernel" if tool == "parsimony" else tool, *_SHOWN]
    program = (
        "import importlib.metadata as m, json, platform, sys; print(json.dumps("
        "{'python': platform.python_version(), **{n: m.version(n) for n in sys.argv[1:]}}))"
    )
    told = subprocess.run(
        [str(python), "-c", program, *asked], check=True, capture_output=True, text=True
    )
    found: dict[str, str] = json.loads(told.stdout)
    return found


def run(python: Path, tool: str, cases: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """What came of the cases in a tool's environment."""
    program = [str(python), str(HERE / "in_environment.py"), tool, str(rounds)]
    ran = subprocess.run(
        program, input=json.dumps(cases), stdout=subprocess.PIPE, text=True, check=True, cwd=HERE
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return {"versions": versions(python, tool), **found}


def tables(results: Mapping[str, Any], cases: Mapping[str, Any]) -> Iterator[str]:
    """The results as Markdown: counts first, then what a cell costs, then each loss."""
    tools = list(results)
    yield table(["", *tools], [[name, *told] for name, told in counts(results, cases)])
    costs = [each["name"] for each in cases["cost"]["cells"]]
    rows = [[name, *(cost(results[tool]["cost"][name]) for tool in tools)] for name in costs]
    yield table(["a cell of", *(f"{tool}: extra, ratio" for tool in tools)], rows)
    yield "\n".join(f"- {line}" for tool in tools for line in losses(tool, results[tool]))


def counts(results: Mapping[str, Any], cases: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """One row for each thing that is counted, a figure for each tool."""

    def row(part: str, figure: Any) -> list[str]:
        return [
            str(figure(list(told[part].values()))) if part in told else "no such thing"
            for told in results.values()
        ]

    def total(name: str) -> Any:
        return lambda found: sum(len(each.get(name, ())) for each in found)

    def outcome(name: str) -> Any:
        return lambda found: sum(each.get("outcome") == name for each in found)

    def failed(found: Sequence[Any]) -> int:
        return sum("failed" in each for each in found)

    stale, fresh = (sum(len(each[k]) for each in cases["staleness"]) for k in ("stale", "fresh"))
    slices, steps = len(cases["slice"]), len(cases["undo"])
    yield f"stale names not noticed, of {stale}", row("staleness", total("missed"))
    yield f"fresh names called stale, of {fresh}", row("staleness", total("false_alarms"))
    sound = row("slice", lambda found: sum(each.get("sound", False) for each in found))
    yield f"slices that make the value, of {slices}", sound
    smallest = {each["name"]: each["smallest"] for each in cases["slice"]}
    yield (
        "lines of the sound slices, in ratio to the fewest",
        [size(t, smallest) for t in results.values()],
    )
    yield f"steps undone whole, of {steps}", row("undo", outcome("back"))
    yield "not undone, and said so", row("undo", outcome("said"))
    yield "not undone, nothing said", row("undo", outcome("lost"))
    for part in ("staleness", "slice", "undo"):
        yield f"{part}: the case could not be run", row(part, failed)
    ratios = [
        statistics.median(each["tool_ms"] / each["plain_ms"] for each in told["cost"].values())
        for told in results.values()
    ]
    yield "a cell, in ratio to one untracked, median", [f"{ratio:.1f}" for ratio in ratios]


def size(told: Mapping[str, Any], smallest: Mapping[str, int]) -> str:
    """How long the sound slices are together, in proportion to the fewest lines."""
    if "slice" not in told:
        return "no such thing"
    sound = {name: each["lines"] for name, each in told["slice"].items() if each.get("sound")}
    fewest = sum(smallest[name] for name in sound)
    return f"{sum(sound.values()) / fewest:.2f}" if fewest else "none"


def cost(told: Mapping[str, float]) -> str:
    """What a cell takes longer, and how many times as long."""
    return f"{told['extra_ms']:,.1f} ms, {told['tool_ms'] / told['plain_ms']:.1f} ×"


def losses(tool: str, told: Mapping[str, Any]) -> Iterator[str]:
    """Each case that a tool did not get right, in a line."""
    for part in ("staleness", "slice", "undo"):
        for name, each in told.get(part, {}).items():
            if "failed" in each:
                yield f"{tool}, {part}, {name}: could not be run ({each['failed'][:120]})"
            elif part == "staleness" and (each["missed"] or each["false_alarms"]):
                wrong = [f"{n} not noticed" for n in each["missed"]]
                wrong += [f"{n} called stale" for n in each["false_alarms"]]
                yield f"{tool}, {part}, {name}: {', '.join(wrong)}"
            elif part == "slice" and not each["sound"]:
                yield f"{tool}, {part}, {name}: {each['error'] or 'another value'}"
            elif part == "undo" and each["outcome"] != "back":
                said = f"; it says {each['said'][:120]!r}" if each["said"] else "; nothing is said"
                yield f"{tool}, {part}, {name}: {each['wrong'][0]} is not so{said}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Run the comparison, or, with ``--tables``, print the tables of the last run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lineage_peers")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "lineage-peers")
    parser.add_argument("--only", choices=list(PACKAGES), action="append")
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    cases = tomllib.loads((HERE / "cells.toml").read_text(encoding="utf-8"))
    if not given.tables:
        pythons = {tool: environment(given.environments, tool) for tool in given.only or PACKAGES}
        ran = {tool: run(python, tool, cases, given.rounds) for tool, python in pythons.items()}
        text = json.dumps(ran, indent=1, ensure_ascii=False)
        RESULTS.write_text(f"{text}\n", encoding="utf-8")
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    results = {tool: found[tool] for tool in PACKAGES if tool in found}
    for tool, told in results.items():
        print(f"{tool}: {told['settings']} · {told['versions']}")
    for each in tables(results, cases):
        print(f"\n{each}")


if __name__ == "__main__":
    main()
