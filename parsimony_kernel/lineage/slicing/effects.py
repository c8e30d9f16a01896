"""What running code does to objects: which names it may change them through.

What a person's own functions do is read from their text; libraries leave what they are handed as
it is, but for what ``analysis/calls.toml`` lists.
"""

import ast
import functools
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from parsimony_kernel.analysis.calls import (
    MUTATES_ARGUMENT,
    MUTATES_RECEIVER,
    PURE_METHODS,
)
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.slicing.sharing import Sharing, links_of, shares
from parsimony_kernel.lineage.slicing.uses import draws
from parsimony_kernel.lineage.slicing.vocabulary import (
    BUILTINS,
    RANDOM,
    Function,
    Vocabulary,
    arguments_of,
    gathered,
    names_in,
    nodes_of,
    root_of,
)

# Libraries whose calls, where nothing is made of what they give, only draw or warn.
_DRAWING = frozenset({"plt", "sns", "alt", "px", "go", "pyplot", "matplotlib", "warnings"})


@functools.lru_cache(maxsize=16)
def vocabulary(codes: tuple[str, ...]) -> Vocabulary:
    """What ``codes`` define. A function is harmless until it, or one that it calls, is not."""
    known = gathered(codes)
    while True:
        harmless = frozenset(
            name
            for name in known.harmless
            if not any(_changes_what_is_not_its_own(each, known) for each in known.functions[name])
        )
        if harmless == known.harmless:
            return known
        known = replace(known, harmless=harmless)


def _changes_what_is_not_its_own(function: Function, known: Vocabulary) -> bool:
    if any(isinstance(each, ast.Global | ast.Nonlocal) for each in nodes_of(function)):
        return True
    decorators = getattr(function, "decorator_list", [])
    if any(not {*names_in(each)} <= known.imports | BUILTINS for each in decorators):
        return True
    body = function.body if isinstance(function.body, list) else [function.body]
    touched = {name for node in body for name, _ in touched_by(node, known)}
    if not touched:
        return False
    shared = Sharing(link for node in body for link in links_of(node, known))
    arguments = {each.arg for each in nodes_of(function.args) if isinstance(each, ast.arg)}
    bound = {name for node in body for name in _bound_in(node)}
    read = {name for node in body for name in names_in(node)}
    outside = arguments | (read - bound - BUILTINS - known.imports)
    return any(shared.affects(name, True, other) for name in touched for other in outside)


def _bound_in(tree: ast.AST) -> set[str]:
    return {
        each.id
        for each in nodes_of(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def touched_by(tree: ast.AST, known: Vocabulary) -> Iterator[tuple[str, bool]]:
    """The names whose object ``tree`` may change, with whether below its top."""
    nodes = nodes_of(tree)
    thrown_away = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
    for node in nodes:
        match node:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del(), value=held)
                | ast.Subscript(ctx=ast.Store() | ast.Del(), value=held)
            ):
                name, steps = root_of(node)
                if name:
                    yield name, steps > 1
                else:
                    for name, _ in shares(held, known):
                        yield name, True
            case ast.Attribute(attr=method) if method in MUTATES_RECEIVER:
                # A method that changes its object, kept or handed on: it may be called.
                name, steps = root_of(node)
                if id(node) not in called and name and name not in known.imports:
                    yield name, steps > 1
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name, False
            case ast.Call():
                yield from _touched_by_call(node, known, id(node) in thrown_away)


def _touched_by_call(
    node: ast.Call, known: Vocabulary, is_thrown_away: bool
) -> Iterator[tuple[str, bool]]:
    handed = arguments_of(node)
    theirs = False
    match node.func:
        case ast.Name(id=name):
            if name in known.functions:
                theirs = name not in known.harmless
                if theirs and name in known.holding:
                    yield name, True
            elif name in BUILTINS or name in known.imports:
                theirs = name in MUTATES_ARGUMENT
            else:
                theirs = True
                if name not in known.classes:
                    yield name, True  # a function by another name, with all that it holds
        case ast.Attribute(attr=method, value=receiver):
            theirs = yield from _touched_by_method(node, method, receiver, known, is_thrown_away)
        case function:
            theirs = True
            for name, _ in shares(function, known):
                yield name, True
    functions = [
        each.id for each in handed if isinstance(each, ast.Name) and each.id in known.functions
    ]
    if any(each not in known.harmless for each in functions):
        theirs = True
        if isinstance(node.func, ast.Attribute) and (name := root_of(node.func.value)[0]):
            yield name, True
    for keyword in node.keywords:
        if keyword.arg == "out":
            for name in names_in(keyword.value):
                yield name, True
    if theirs:
        for each in handed:
            for name in names_in(each):
                yield name, True


def _touched_by_method(
    node: ast.Call, method: str, receiver: ast.expr, known: Vocabulary, is_thrown_away: bool
) -> Generator[tuple[str, bool], None, bool]:
    """The names that a call of a method touches by its receiver; whether it also changes what it
    is handed."""
    name, steps = root_of(receiver)
    in_place = any(
        each.arg == "inplace"
        and not (isinstance(each.value, ast.Constant) and each.value.value is False)
        for each in node.keywords
    )
    if name in known.imports:
        if is_thrown_away and name not in _DRAWING and method not in PURE_METHODS:
            yield name, True  # a setting, such as a seed
        return method in MUTATES_ARGUMENT
    if method in known.methods:
        if name:
            yield name, True
        for name, _ in shares(receiver, known):
            yield name, True
        return True
    if name in BUILTINS:
        return method in MUTATES_RECEIVER  # such as list.append(xs, 1)
    if name and method in MUTATES_RECEIVER:
        yield name, steps > 0
    elif name and (in_place or method not in PURE_METHODS):
        yield name, steps > 0 or not in_place
    elif in_place or method not in PURE_METHODS:
        for name, kind in shares(receiver, known):
            if kind != "copy" or method not in MUTATES_RECEIVER:
                yield name, True
    return False


@dataclass(frozen=True)
class Later:
    """What happens when a function runs: names it reads, binds, and whose objects it changes."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()

    def __or__(self, other: "Later") -> "Later":
        return Later(
            self.reads | other.reads, self.writes | other.writes, self.touched | other.touched
        )


def later_of(function: ast.AST, known: Vocabulary) -> Later:
    match function:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            bare = ast.parse(ast.unparse(function)).body[0]
            assert isinstance(bare, ast.FunctionDef | ast.AsyncFunctionDef)
            bare.decorator_list = []
            bare.args.defaults = [ast.Constant(None) for _ in bare.args.defaults]
            bare.args.kw_defaults = [each and ast.Constant(None) for each in bare.args.kw_defaults]
            text = ast.unparse(ast.fix_missing_locations(bare))
            names = read(text)
            own = {function.name}
        case ast.Lambda() | ast.GeneratorExp():
            names = read(ast.unparse(function))
            own = set()
        case _:
            return Later()
    bound = {
        each.id
        for each in nodes_of(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    } | {each.arg for each in nodes_of(function) if isinstance(each, ast.arg)}
    touched = {name for name, _ in touched_by(function, known)}
    links = Sharing(links_of(function, known))
    reached = {
        name
        for name in names.reads
        if any(links.affects(each, True, name) for each in touched | names.mutated)
    }
    random = any(isinstance(each, ast.Call) and draws(each, known) for each in nodes_of(function))
    return Later(
        (names.reads - own) | ({RANDOM} if random else set()),
        names.writes - own,
        frozenset((touched - bound) & (names.reads | names.mutated) | names.mutated | reached),
    )
