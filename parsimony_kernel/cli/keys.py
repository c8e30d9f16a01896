"""``keys``: the keys that sign waiting questions. No secret is ever shown."""

import argparse
import json
from dataclasses import asdict
from datetime import datetime

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command

EXAMPLES: Examples = (
    ("keys list", "list the keys and their states"),
    ("keys list --json", "the same for a program"),
    ("keys rotate", "once in a while, or when people change"),
    ("keys revoke 0123456789abcdef", "when somebody else may have read that key"),
)


def add(commands: Commands) -> None:
    actions = add_command(
        commands,
        "keys",
        None,
        "list, rotate or revoke the keys that sign waiting questions",
        examples=EXAMPLES,
    ).add_commands("ACTION")
    listed = add_command(
        actions, "list", run, "list the keys, the newest first", examples=EXAMPLES[:2]
    )
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    add_command(
        actions,
        "rotate",
        _rotate,
        "sign with a new key; questions of the old one are answered for 7 more days",
        examples=EXAMPLES[2:3],
    )
    revoke = add_command(
        actions,
        "revoke",
        _revoke,
        "destroy a key now; questions that it signed can never be answered",
        examples=EXAMPLES[3:],
    )
    revoke.add_argument("key_id", metavar="KEY_ID", help="as the list shows it")


def run(arguments: argparse.Namespace) -> int:
    """List them."""
    from parsimony_kernel.storage.keyring import Keyring, KeyringError

    try:
        keyring = Keyring.open()
        keys = keyring.keys()
        if arguments.json:
            told = [asdict(key) for key in keys]
            output.say(json.dumps(told, default=datetime.isoformat, indent=2))
        elif not keys:
            output.say("There is no key yet; the first question makes one.")
        else:
            lines = [f"{'key':16}  {'state':11}  {'created':10}  signed until"]
            for key in keys:
                made, until = _day(key.created_at), _day(key.retired_at)
                lines.append(f"{key.key_id or '?':16}  {key.state:11}  {made:10}  {until}")
            output.say("\n".join(lines))
        keyring.check()
    except KeyringError as problem:
        return output.fail(problem)
    return output.DONE


def _rotate(_arguments: argparse.Namespace) -> int:
    from parsimony_kernel.storage.keyring import GRACE_S, Keyring, KeyringError

    try:
        key = Keyring.open().rotate()
    except KeyringError as problem:
        return output.fail(problem)
    output.say(
        f"Questions are signed with {key.key_id} from now on. Those that the key before it signed "
        f"can be answered for {GRACE_S / 86_400:g} more days."
    )
    return output.DONE


def _revoke(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.storage.keyring import Keyring, KeyringError

    try:
        Keyring.open().revoke(arguments.key_id)
    except KeyringError as problem:
        return output.fail(problem)
    output.say(
        f"The secret of {arguments.key_id} is destroyed. Questions that it signed cannot be "
        "answered any more: run their cells again. New questions are signed with another key."
    )
    return output.DONE


def _day(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d}"
