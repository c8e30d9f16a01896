"""Making the kernel known, the settings file, what a run needs, and the signing keys."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import output
from parsimony_kernel.storage.keyring import GRACE_S, Keyring


def install(arguments: argparse.Namespace) -> int:
    """Make the kernel known to Jupyter."""
    from parsimony_kernel.kernel import install as kernelspec

    in_environment = not arguments.user and arguments.prefix is None
    placed = kernelspec.install(
        user=arguments.user,
        prefix=sys.prefix if in_environment else arguments.prefix,
        name=arguments.name or KERNEL_NAME,
        display_name=arguments.display_name or kernelspec.DISPLAY_NAME,
    )
    output.say(f"Installed in {placed}")
    return output.DONE


def uninstall(arguments: argparse.Namespace) -> int:
    """Remove the kernel from Jupyter."""
    from parsimony_kernel.kernel import install as kernelspec

    removed = kernelspec.uninstall(
        arguments.name or KERNEL_NAME,
        user=arguments.user,
        prefix=sys.prefix if arguments.sys_prefix else arguments.prefix,
    )
    output.say(f"Removed {removed}")
    return output.DONE


def mcp(arguments: argparse.Namespace) -> int:
    """Serve a running notebook to an MCP client, until that goes away."""
    try:
        from parsimony_kernel.mcp import server
    except ModuleNotFoundError as missing:
        if missing.name not in ("mcp", "mcp_types"):
            raise
        return output.fail('MCP needs the package mcp: pip install "parsimony-kernel[mcp]"')
    server.serve(server.Kernel(arguments.folder, arguments.notebook, arguments.existing))
    return output.DONE


def doctor(arguments: argparse.Namespace) -> int:
    """Check what a run needs, and say what to do about what is missing."""
    from parsimony_kernel.doctor import run_checks, to_text

    findings = run_checks(arguments.folder.resolve(), model=arguments.model, ask=arguments.ask)
    is_well = all(finding.ok or finding.level != "error" for finding in findings)
    if arguments.json:
        output.as_json({"ok": is_well, "findings": [asdict(finding) for finding in findings]})
    else:
        output.say(to_text(findings))
    return output.DONE if is_well else output.FAILED


def generate_config(_arguments: argparse.Namespace) -> int:
    """Write a file with every setting into Jupyter's configuration folder; never over another."""
    from jupyter_core.paths import jupyter_config_dir

    from parsimony_agent.settings import FILE, file_text
    from parsimony_kernel.storage import durable

    place = Path(jupyter_config_dir()) / FILE
    if not durable.create(place, file_text().encode()):
        return output.fail(f"{str(place)!r} exists already, and is left as it is.")
    output.say(f"Written: {place}\nEdit it, and restart the kernels that are to follow it.")
    return output.DONE


# -- the keys that sign waiting questions; no secret is ever shown


def list_keys(arguments: argparse.Namespace) -> int:
    """List the keys, the newest first."""
    keyring = Keyring.open()
    keys = keyring.keys()
    if arguments.json:
        output.say(json.dumps([asdict(key) for key in keys], default=datetime.isoformat, indent=2))
    elif not keys:
        output.say("There is no key yet; the first question makes one.")
    else:
        lines = [f"{'key':16}  {'state':11}  {'created':10}  signed until"]
        for key in keys:
            made, until = _day(key.created_at), _day(key.retired_at)
            lines.append(f"{key.key_id:16}  {key.state:11}  {made:10}  {until}")
        output.say("\n".join(lines))
    keyring.check()
    return output.DONE


def rotate_key(_arguments: argparse.Namespace) -> int:
    """Sign with a new key from now on."""
    key = Keyring.open().rotate()
    output.say(
        f"Questions are signed with {key.key_id} from now on. Those that the key before it signed "
        f"can be answered for {GRACE_S / 86_400:g} more days."
    )
    return output.DONE


def revoke_key(arguments: argparse.Namespace) -> int:
    """Destroy a key."""
    Keyring.open().revoke(arguments.key_id)
    output.say(
        f"The secret of {arguments.key_id} is destroyed. Questions that it signed cannot be "
        "answered any more: run their cells again. New questions are signed with another key."
    )
    return output.DONE


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"
