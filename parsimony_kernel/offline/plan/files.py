"""Files that a request names, by their names or by words.

The same name in another folder, case, spelling of blanks or format is the same file. A name that
only comes near is a question.
"""

from collections.abc import Sequence

from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.columns import near_files
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.words import fold, singular, spoken, stem_of, word_set

MAX_FILES = 8
SUBJECTS = word_set("data dataset table file csv json excel parquet the a of and from in")


def file_by_name(turn: Turn, name: str) -> str:
    """The file that is named; as it is written when it lies outside of what is listed."""
    if name.startswith(("/", "~", "..")) or name[1:2] == ":":
        return name
    same = _same(name, turn.files)
    if len(same) == 1:
        _tell_difference(turn, name, same[0])
        return same[0]
    if same:
        return choose_file(turn, f"Which {name!r} do you mean?", same)
    near = near_files(name, turn.files)
    question = f"There is no file {name!r}. Which one do you mean?"
    if near or question in turn.answers:
        return choose_file(turn, question, near or turn.files)
    if not turn.files or "/" in name:
        return name
    raise Declined(
        f"There is no file {name!r} here.",
        [f"{name} was not found among {len(turn.files)} data files"],
        [f"Name one of these: {spoken(turn.files[:MAX_FILES], 'or')}."],
    )


def _same(name: str, files: Sequence[str]) -> list[str]:
    """The files that have this name, by the strictest reading that finds any."""
    wanted = name.replace("\\", "/").removeprefix("./").casefold()
    base, suffix = wanted.rpartition("/")[2], wanted.rpartition(".")[2]
    stem = "".join(fold(stem_of(name)))
    alike = [f for f in files if "".join(fold(stem_of(f))) == stem]
    readings = (
        [f for f in files if f.casefold() == wanted],
        [f for f in files if f.casefold().endswith(f"/{wanted}")],
        [f for f in files if f.casefold().rpartition("/")[2] == base],
        [f for f in alike if f.casefold().endswith(f".{suffix}")],
        alike,
    )
    return next((found for found in readings if found), [])


def _tell_difference(turn: Turn, name: str, path: str) -> None:
    folder = "/" in name and not path.casefold().endswith(name.removeprefix("./").casefold())
    if folder or path.rpartition(".")[2].casefold() != name.rpartition(".")[2].casefold():
        turn.tell([f"{name!r} is not there; I took {path!r}"])


def choose_file(turn: Turn, question: str, options: Sequence[str]) -> str:
    """The file that the person chose; any file that is there may be named."""
    named = _same(turn.answers.get(question, "").strip(), turn.files)
    return named[0] if len(named) == 1 else choose(turn.answers, question, options[:MAX_FILES])


def words_of(text: str) -> set[str]:
    """The words that can be a subject, as singulars."""
    return {singular(w) for w in fold(text)} - SUBJECTS


def files_alike(turn: Turn, text: str) -> list[str]:
    """The files whose name is all these words; else those whose name holds them."""
    words = words_of(text)
    stems = {f: {singular(w) for w in fold(stem_of(f))} for f in turn.files}
    equal = [f for f, stem in stems.items() if stem == words]
    return equal or [f for f, stem in stems.items() if words and words <= stem]


def file_by_words(turn: Turn, text: str) -> str:
    """The file that is meant by ``text``; by nothing, when it is the only one."""
    if not turn.files:
        raise no_files(turn, text)
    if not text:
        if len(turn.files) == 1:
            return turn.files[0]
        return choose_file(turn, "Which file should I load?", turn.files)
    found = files_alike(turn, text)
    if len(found) == 1:
        if words_of(stem_of(found[0])) != words_of(text):
            turn.tell([f"I took {text!r} to mean the file {found[0]!r}"])
        return found[0]
    question = f"Which file do you mean by {text!r}?"
    return choose_file(turn, question, found or near_files(text, turn.files) or turn.files)


def no_files(turn: Turn, text: str = "") -> Declined:
    """There is nothing to work on, or nothing that was told."""
    asked = f" that could be {text!r}" if text else ""
    if turn.transcript.is_kept_back:
        return Declined(
            f"I am told of no table and of no data file{asked}: not all of the notebook is shared "
            "with me.",
            ["what to work on is kept in the notebook"],
            ["Ask again with --share samples, or name it with --context."],
        )
    return Declined(
        f"There is no table in the notebook and no data file{asked} in its folder.",
        ["no data to work on"],
        ["Put a CSV, Parquet, Excel or JSON file beside the notebook, or load a table.",
         "Then try for instance: 'load data/cars.csv'"],
    )  # fmt: skip
