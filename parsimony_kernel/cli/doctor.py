"""``doctor``: what a run needs, and what to do about what is missing."""

import argparse
from dataclasses import asdict

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command, add_folder, add_json

EXAMPLES: Examples = (
    ("doctor", "look at what notebooks here need"),
    ("doctor --folder notebooks --json", "in another one, for a program"),
    ("doctor --model ollama/llama3 --try", "ask a model's endpoint what it has"),
)
KEYS = {
    "ok": "whether nothing keeps a run from working",
    "findings": "what was looked at: name, ok, says, remedy, level",
}


def add(commands: Commands) -> None:
    command = add_command(
        commands, "doctor", run, "look at what a run needs", examples=EXAMPLES, keys=KEYS
    )
    add_folder(command)
    command.add_argument("--model", metavar="NAME", help="the model to look at")
    command.add_argument(
        "--try",
        dest="ask",
        action="store_true",
        help="ask the model's endpoint for its list of models; without it nothing leaves here",
    )
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.doctor import examine

    findings = examine(arguments.folder.resolve(), model=arguments.model, ask=arguments.ask)
    is_well = all(finding.ok or finding.level != "error" for finding in findings)
    if arguments.json:
        output.as_json({"ok": is_well, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mark = "ok  " if finding.ok else {"error": "NOT "}.get(finding.level, "look")
            output.say(f"{mark} {finding.name}: {finding.says}")
            if finding.remedy:
                output.say(f"     -> {finding.remedy}")
    return output.DONE if is_well else output.FAILED
