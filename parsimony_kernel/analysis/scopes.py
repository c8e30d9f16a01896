"""The names that belong to a function or a class itself."""

import ast
from collections.abc import Iterable


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters of a function, whatever way they are passed."""
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [each for each in (arguments.vararg, arguments.kwarg) if each is not None]


def bound_in(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that a function's or class's own body binds, and those it declares global."""
    bound: set[str] = set()
    declared: set[str] = set()
    pending = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.Global():
                declared.update(node.names)
            case ast.Name(ctx=ast.Store() | ast.Del()):
                bound.add(node.id)
            case ast.Import() | ast.ImportFrom():
                bound.update(each.asname or each.name.partition(".")[0] for each in node.names)
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # Its targets are its own; only a walrus inside binds here.
                pending += [
                    each.target for each in ast.walk(node) if isinstance(each, ast.NamedExpr)
                ]
                continue
        pending += list(ast.iter_child_nodes(node))
    return bound, declared
