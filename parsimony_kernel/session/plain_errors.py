"""What an error says, as far as it is made of the code that raised it.

A message may quote any value. Told is one that stands in the code word for word; of every other
one, the names of that code and of well-known types that it quotes.
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

_QUOTED = re.compile(r"'([^']*)'")


def kind_of(name: str, code: str) -> str:
    """The name of an exception's class, where Python, a library or ``code`` has it."""
    is_pythons = isinstance(getattr(builtins, name, None), type)
    return name if is_pythons or name in _ERRORS or name in _words(code) else OTHER_ERROR


def words_of(message: str, code: str) -> str:
    """What an exception that left ``code`` says, or the names of the code that it quotes."""
    cell = read(code)
    # Reading the code may give that very message, so that no data can be in it.
    if message in cell.strings or message == cell.error:
        return message
    known = _words(code) | cell.strings | _TYPES
    return ", ".join(dict.fromkeys(each for each in _QUOTED.findall(message) if each in known))


def _words(code: str) -> frozenset[str]:
    """The names in the code, and those with dots between them."""
    return frozenset(_NAME.findall(code) + re.findall(r"[^\W\d][\w.]*\w", code))
