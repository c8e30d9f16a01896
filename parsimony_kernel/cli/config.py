"""``--generate-config``: a configuration file with every setting in it, to be edited."""

import argparse
from pathlib import Path
from typing import Any

from parsimony_kernel.cli import output


class GenerateConfig(argparse.Action):
    """Writes the file and ends the program; one that exists is never touched."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, help="write a configuration file to edit, and stop", **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.exit(write(_folder()))


def _folder() -> Path:
    from jupyter_core.paths import jupyter_config_dir

    return Path(jupyter_config_dir())


def write(folder: Path) -> int:
    """Write the file into ``folder``; gives the exit code."""
    from parsimony_agent.settings import FILE, file_text
    from parsimony_kernel.storage import durable

    place = folder / FILE
    try:
        is_made = durable.create(place, file_text().encode())
    except durable.StorageError as problem:
        return output.fail(problem)
    if not is_made:
        return output.fail(f"{str(place)!r} exists already, and is left as it is.")
    output.say(f"Written: {place}\nEdit it, and restart the kernels that are to follow it.")
    return output.DONE
