"""What a cell's code does with names, per top-level statement. Pure: code in, values out.

The syntax is all there is to go by, so that code which has not run can be asked too, and it errs
towards naming too much: a name that only might be read counts as read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from parsimony_kernel.analysis.columns import Lookup
from parsimony_kernel.analysis.roots import Root, Steps
from parsimony_kernel.analysis.values import Ref, Text, Value


@dataclass(frozen=True)
class Call:
    """One call.

    Args:
        name: what is called, as it is written: ``pd.read_csv``; of what has no name, the last part.
        origin: what that stands for: ``pandas.read_csv`` where the cell imports it so.
        root: the name that it begins with, through other calls: ``pd`` for ``pd.f().g()``.
        line: its line in the cell, from 1.
        names: the names at the end of the arguments, called ones as well: ``x`` for ``a.x`` and
            ``x()``; empty for other arguments.
        texts: the strings among the arguments, and within them.
        handed: all names in its arguments, and in what a method is called on.
        receiver: what a method is called on.
        args: the arguments by their places, up to one with a star.
        keywords: the arguments by their names.
    """

    name: str
    origin: Ref | None
    root: str
    line: int
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    handed: frozenset[str] = frozenset()
    receiver: Value | None = None
    args: tuple[Value | None, ...] = ()
    keywords: Mapping[str, Value | None] = field(default_factory=dict, hash=False)

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def mode(self) -> str | None:
        """The second argument or ``mode=``; ``None`` where there is none, and ``?`` where the text
        does not tell."""
        given = [
            *self.args[1:2],
            *(self.keywords[each] for each in self.keywords if each == "mode"),
        ]
        match given:
            case []:
                return None
            case [Text(parts=(str(mode),)), *_]:
                return mode
        return "?"


@dataclass(frozen=True)
class Magic:
    """A line or a cell for IPython. ``name`` is empty for ``!``; ``body`` is a cell's."""

    name: str
    text: str
    line: int
    body: str | None = None


@dataclass(frozen=True)
class Names:
    """What code does with the module-level names of a notebook.

    Args:
        reads: those whose value from before it is used.
        writes: those that are bound.
        deletes: those that are unbound.
        mutated: those whose object is changed in place.
        stale: of those, the ones that may still have their object from before the cell then.
        reached: those of whose parts one is changed in place, by way of another name.
        touched: those that are handed to a call, or of which a method is called.
        called: those that are called.
        receivers: those that a method is called on, or on a part of them.
        may_mutate: all that are plainly changed in place, or handed to what does that.
        literals: the strings, except what is plainly only written to.
        modules: the names of imports, with what they are bound to: ``pandas``, ``math:sqrt``.
        items: the parts that are looked up by a key, and deleted from a namespace by one that
            isn't known, as calls of ``__getitem__`` and ``__delitem__``.
        links: names, each with one whose object, or a part of it, it is bound to or given.
        paths: the names of ``mutated``, with the steps to the part that is changed.
        keeps_state: it makes what may give something else each time: a class, a generator, a
            function within a function.
        opaque: it may bind and change names that its text does not tell.
        changes_all: it may change in place whatever it reads.
        changes_any: it may change in place whatever there is.
        columns: the labels that are certainly looked up in what may be frames.
        imported: all modules and what is imported from them, with the packages they are in; this
            and what follows takes no account of scopes.
        defined: all functions and classes.
        strings: all strings.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    mutated: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    reached: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    receivers: frozenset[str] = frozenset()
    may_mutate: frozenset[str] = frozenset()
    literals: tuple[str, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, Root], ...] = ()
    paths: tuple[tuple[str, Steps], ...] = ()
    calls: tuple[Call, ...] = ()
    items: tuple[Call, ...] = ()
    magics: tuple[Magic, ...] = ()
    keeps_state: bool = False
    opaque: bool = False
    changes_all: bool = False
    changes_any: bool = False
    columns: tuple[Lookup, ...] = ()
    imported: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    strings: frozenset[str] = frozenset()

    @property
    def imports(self) -> frozenset[str]:
        """The names that import statements bind."""
        return frozenset(name for name, _ in self.modules) & self.writes


NOTHING = Names()


@dataclass(frozen=True)
class Statement(Names):
    """One top-level statement; ``reads`` are those of its own, bound by the cell or not.

    Args:
        source: its text, with its decorators.
        lines: its first and last line in the cell, from 1, both inside.
        defines: it is the definition of a function or a class.
        rebinds: it gives names to new objects and does nothing else, such as an assignment.
        certain: the names that it binds whatever happens.
        now: those of ``reads`` that are read when it runs, not by functions that it defines.
        later: what its functions do when they run; ``NOTHING`` where there is none of it.
        pairs: of ``a, b = x, y`` what each name is made from.
    """

    source: str = ""
    lines: tuple[int, int] = (0, 0)
    defines: bool = False
    rebinds: bool = False
    certain: frozenset[str] = frozenset()
    now: frozenset[str] = frozenset()
    later: Names = NOTHING
    pairs: tuple[tuple[str, frozenset[str]], ...] = ()

    def inputs_of(self, name: str) -> frozenset[str]:
        """The names that it reads to make ``name``."""
        return dict(self.pairs).get(name, self.reads)


@dataclass(frozen=True)
class Cell(Names):
    """A whole cell; ``reads`` are the names whose value from before the cell is used.

    Args:
        error: why the code is no Python; it has no statements then, and may change anything.
    """

    statements: tuple[Statement, ...] = field(default=(), repr=False)
    error: str | None = None
