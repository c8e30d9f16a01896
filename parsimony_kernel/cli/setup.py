"""Setup commands: ``install``, ``mcp``, ``doctor`` and ``keys``."""

import argparse
from dataclasses import asdict
from datetime import datetime

from parsimony_kernel.cli import output
from parsimony_kernel.storage.keyring import GRACE_S, Keyring


def install(arguments: argparse.Namespace) -> int:
    """Install the kernelspec."""
    from parsimony_kernel.kernel import install as kernelspec

    placed = kernelspec.install(user=arguments.user)
    output.say(f"Installed in {placed}")
    return output.DONE


def mcp(arguments: argparse.Namespace) -> int:
    """Serve a running notebook to an MCP client until the client disconnects."""
    try:
        from parsimony_kernel.mcp import server
    except ModuleNotFoundError as missing:
        if missing.name not in ("mcp", "mcp_types"):
            raise
        return output.fail('MCP needs the package mcp: pip install "parsimony-kernel[mcp]"')
    server.serve(server.Kernel(arguments.folder, arguments.notebook, arguments.existing))
    return output.DONE


def doctor(arguments: argparse.Namespace) -> int:
    """Check the requirements of a run, and print remedies."""
    from parsimony_kernel.doctor.checks import run_checks, to_text

    findings = run_checks(model=arguments.model)
    is_well = all(finding.ok or finding.level != "error" for finding in findings)
    facts = {"ok": is_well, "findings": [asdict(finding) for finding in findings]}
    return output.give(arguments, facts, to_text(findings), ok=is_well)


def keys(arguments: argparse.Namespace) -> int:
    """List or rotate the keys that sign pending questions; no secret is ever printed."""
    keyring = Keyring()
    if arguments.action == "rotate":
        key = keyring.rotate()
        output.say(
            f"Questions are signed with {key.key_id} from now on. Those that the key before "
            f"it signed can be answered for {GRACE_S / 86_400:g} more days."
        )
        return output.DONE
    from parsimony_agent.tables import table

    rows = [
        (key.key_id, "old" if key.retired else "current", _day(key.since), _day(key.retired))
        for key in keyring.keys()  # noqa: SIM118 - no dict
    ]
    head = ("key", "state", "created", "signed until")
    empty = "There is no key yet; the first question makes one."
    output.say(str(table(head, rows, empty=empty)["text/plain"]))
    return output.DONE


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"
