"""What an expression plainly is, by its form alone."""

import ast

from parsimony_kernel.lineage.known_calls import NAMESPACES


def last_name(node: ast.expr) -> str:
    """The name at the end of what is called or looked up, empty where there is none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return last_name(function)
    return ""


def is_namespace(node: ast.expr) -> bool:
    """Whether an expression gives the names of the notebook as a mapping."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
            return name in NAMESPACES
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="user_ns"):
            return True
    return False


def has_true(node: ast.Call, keyword: str) -> bool:
    """Whether a call says ``keyword=True``."""
    return any(
        each.arg == keyword and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in node.keywords
    )


def opens_to_write(node: ast.Call) -> bool:
    """Whether a call of ``open`` gives a mode that writes."""
    modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and bool(set(each.value) & set("wax"))
        for each in modes
    )
