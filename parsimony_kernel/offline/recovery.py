"""What an error teaches: other code, a question, or the end.

Read from the error's type and text alone. Each answer differs from everything that failed before;
where nothing new is left to try, the end is said plainly.
"""

import re
from collections.abc import Sequence

from parsimony_kernel.offline.codegen.cells import Options
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.transcript import Call


def load_options(path: str, failures: Sequence[Call]) -> list[str]:
    """The arguments with which to read ``path`` after these failures; raises ``Declined``."""
    options: list[str] = []
    for call in failures:
        kind, text = call.error_type, call.error_text
        if kind in ("ModuleNotFoundError", "ImportError"):
            raise missing_module(text)
        match kind:
            case "UnicodeDecodeError" if 'encoding="latin-1"' not in options:
                options.append('encoding="latin-1"')
            case "EmptyDataError":
                raise _unreadable(path, "the file is empty", "Fill it, or name another file.")
            case "ParserError" if "Expected 1 fields" in text and 'sep=";"' not in options:
                options.append('sep=";"')
            case "ValueError" if "Trailing data" in text and "lines=True" not in options:
                options.append("lines=True")
            case "ValueError" if _is_empty_json(path, text):
                raise _unreadable(
                    path, "the file is empty or no JSON", "Look into it with a text editor."
                )
            case "ValueError" | "AttributeError" if _is_nested_json(path, options):
                options.append("normalize")
            case "FileNotFoundError":
                continue
            case "PermissionError":
                raise _unreadable(path, "the file may not be read", "Change its permissions.")
            case _:
                raise _unreadable(path, f"{kind}: {text}"[:300], "Check the file's content.")
    return options


def other_paths(path: str, working_folder: str) -> list[str]:
    """Where a file may be when it is not at ``path``."""
    folder = working_folder.strip("/")
    found = [path]
    if folder and folder != ".":
        found.append(f"{folder}/{path}")
        if path.startswith(f"{folder}/"):
            found.append(path[len(folder) + 1 :])
        found.append("../" * len(folder.split("/")) + path)
    return list(dict.fromkeys(found))


def analysis_options(failures: Sequence[Call], day_first: frozenset[str]) -> Options:
    """How to write the code after these failures; raises ``Declined``."""
    mixed = names = False
    for call in failures:
        kind, text = call.error_type, call.error_text
        if kind in ("ModuleNotFoundError", "ImportError"):
            raise missing_module(text)
        if _is_date_trouble(kind, text) and not mixed:
            mixed = True
        elif kind == "KeyError" and not names:
            names = True
        elif kind == "NameError":
            continue
        else:
            raise gave_up(call)
    return Options(mixed_dates=mixed, text_names=names, day_first=day_first)


def missing_module(text: str) -> Declined:
    """A package that the code needs is not there."""
    found = re.search(r"No module named '([\w.]{1,80})'|dependency '([\w.\-]{1,80})'", text)
    package = (found.group(1) or found.group(2)).partition(".")[0] if found else "the package"
    return Declined(
        f"The package {package!r} is not installed in this kernel.",
        [text[:200] or f"{package} is missing"],
        [f"Run %pip install {package} and then this cell again."],
    )


def gave_up(call: Call) -> Declined:
    """The code failed and there is nothing else to try."""
    error = f"{call.error_type}: {call.error_text}".strip(": ")[:300]
    what = call.purpose or "the step"
    return Declined(
        f"{what!r} failed, and I know no other way to do it.",
        [error],
        ["Look at the code of the step above and run it with a change.", "Ask in other words."],
    )


def _unreadable(path: str, reason: str, step: str) -> Declined:
    return Declined(f"I could not read {path!r}: {reason}.", [f"{path}: {reason}"], [step])


def _is_date_trouble(kind: str, text: str) -> bool:
    return kind in ("DateParseError", "OutOfBoundsDatetime") or (
        kind == "ValueError"
        and bool(
            re.search(r"time data|datetime|doesn't match format|out of range|unconverted", text)
        )
    )


def _is_empty_json(path: str, text: str) -> bool:
    return path.casefold().endswith("json") and (
        "Expected object" in text or "Unexpected" in text or "No ':'" in text
    )


def _is_nested_json(path: str, options: Sequence[str]) -> bool:
    return path.casefold().endswith(".json") and "normalize" not in options
