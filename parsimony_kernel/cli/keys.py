"""The keys that sign waiting questions. No secret is ever shown."""

import argparse
import json
from dataclasses import asdict
from datetime import datetime

from parsimony_kernel.cli import output
from parsimony_kernel.storage.keyring import GRACE_S, Keyring


def show(arguments: argparse.Namespace) -> int:
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


def rotate(_arguments: argparse.Namespace) -> int:
    """Sign with a new key from now on."""
    key = Keyring.open().rotate()
    output.say(
        f"Questions are signed with {key.key_id} from now on. Those that the key before it signed "
        f"can be answered for {GRACE_S / 86_400:g} more days."
    )
    return output.DONE


def revoke(arguments: argparse.Namespace) -> int:
    """Destroy a key."""
    Keyring.open().revoke(arguments.key_id)
    output.say(
        f"The secret of {arguments.key_id} is destroyed. Questions that it signed cannot be "
        "answered any more: run their cells again. New questions are signed with another key."
    )
    return output.DONE


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"
