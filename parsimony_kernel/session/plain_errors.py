"""What an error says, as far as it is made of the code that raised it.

A message may quote any value. Told is one that stands in the code word for word, or a known
sentence of Python's whose blanks are filled with names of that code or of well-known types; every
other blank is an ellipsis, and every other message is nothing.
"""

import builtins
import re

from parsimony_kernel.analysis.read import read

_NAME = re.compile(r"[^\W\d]\w*")
_TYPES = frozenset(
    _NAME.findall(
        "DataFrame DataFrameGroupBy DatetimeIndex Expr Index LazyFrame MultiIndex NoneType "
        "RangeIndex Series SeriesGroupBy Styler Timedelta Timestamp bool bytes coroutine date "
        "builtin_function_or_method datetime dict float frozenset function generator int list "
        "method module ndarray object range set slice str timedelta tuple type"
    )
)
# Classes that libraries of analysts raise, beside those of Python.
_ERRORS = frozenset(
    _NAME.findall(
        "AxisError ColumnNotFoundError ComputeError DateParseError EmptyDataError "
        "IntCastingNaNError InvalidIndexError InvalidOperationError LinAlgError MergeError "
        "OutOfBoundsDatetime ParserError SchemaError SchemaValidationError ShapeError "
        "UndefinedVariableError"
    )
)
OTHER_ERROR = "Exception"

_SENTENCES = {
    "AttributeError": (
        r"'(.+?)' object has no attribute '(.+?)'",
        r"module '(.+?)' has no attribute '(.+?)'",
        r"type object '(.+?)' has no attribute '(.+?)'",
    ),
    "FileNotFoundError": (r"\[Errno 2\] No such file or directory: '(.+)'",),
    "ImportError": (r"cannot import name '(.+?)' from '(.+?)'",),
    "IndexError": (r"list index out of range", r"tuple index out of range"),
    "KeyError": (r"'(.+)'",),
    "ModuleNotFoundError": (r"No module named '(.+)'",),
    "NameError": (r"name '(.+)' is not defined",),
    "TypeError": (
        r"'(.+?)' object is not callable",
        r"'(.+?)' object is not iterable",
        r"'(.+?)' object is not subscriptable",
        r"(\w+)\(\) got an unexpected keyword argument '(.+?)'",
        r"(\w+)\(\) missing 1 required positional argument: '(.+?)'",
        r"can only concatenate (\w+) \(not \"(\w+)\"\) to (\w+)",
        r"unsupported operand type\(s\) for [^\w\s']+: '(.+?)' and '(.+?)'",
        r"'[^\w\s']+' not supported between instances of '(.+?)' and '(.+?)'",
    ),
    "UnboundLocalError": (
        r"cannot access local variable '(.+)' where it is not associated with a value",
    ),
    "ZeroDivisionError": (r"division by zero", r"float division by zero"),
}


def kind_of(name: str, code: str) -> str:
    """The name of an exception's class, where Python, a library or ``code`` has it."""
    is_pythons = isinstance(getattr(builtins, name, None), type)
    return name if is_pythons or name in _ERRORS or name in _words(code) else OTHER_ERROR


def words_of(name: str, message: str, code: str) -> str:
    """What the exception ``name`` that left ``code`` says; empty where none of it can be told."""
    cell = read(code)
    # Reading the code may give that very message, so that no data can be in it.
    if message in cell.strings or message == cell.error:
        return message
    known = _words(code) | cell.strings
    for sentence in _SENTENCES.get(name, ()):
        found = re.fullmatch(sentence, message)
        if found is not None:
            return _filled(found, known | _TYPES)
    return ""


def _filled(found: re.Match[str], known: frozenset[str]) -> str:
    text, end = "", 0
    for number in range(1, len(found.groups()) + 1):
        blank = found.group(number)
        text += found.string[end : found.start(number)] + (blank if blank in known else "…")
        end = found.end(number)
    return text + found.string[end:]


def _words(code: str) -> frozenset[str]:
    """The names in the code, and those with dots between them."""
    return frozenset(_NAME.findall(code) + re.findall(r"[^\W\d][\w.]*\w", code))
