"""``doctor``: what a run needs, and what to do about what is missing."""

import argparse
from dataclasses import asdict

from parsimony_kernel.commands import output
from parsimony_kernel.commands.parser import Commands, Examples, add_command, add_folder, add_json

EXAMPLES: Examples = (
    ("doctor", "look at what notebooks here need"),
    ("doctor --folder notebooks --json", "in another one, for a program"),
)
KEYS = {
    "ok": "whether nothing is missing",
    "findings": "what was looked at: name, ok, says",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands, "doctor", run, "look at what a run needs", examples=EXAMPLES, keys=KEYS
    )
    add_folder(command)
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.doctor import examine

    findings = examine(arguments.folder.resolve())
    is_well = all(finding.ok for finding in findings)
    if arguments.json:
        output.as_json({"ok": is_well, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            output.say(f"{'ok ' if finding.ok else 'NOT'}  {finding.name}: {finding.says}")
    return output.DONE if is_well else output.FAILED
