"""The language of `when`: comparisons of what parents came to, with and, or, not and in. Nothing is called, nothing is looked up
but the names that are given; it always ends, and costs no more than it is long.

    extract.result.rows > 0 and extract.state == "SUCCEEDED"
    "eu" in payload.regions or steps["load-eu"].state != "DEAD"
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from duly.domain.errors import Invalid

LONGEST = 500
MOST_NODES = 100

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: bool(left == right),
    ast.NotEq: lambda left, right: bool(left != right),
    ast.Lt: lambda left, right: bool(left < right),
    ast.LtE: lambda left, right: bool(left <= right),
    ast.Gt: lambda left, right: bool(left > right),
    ast.GtE: lambda left, right: bool(left >= right),
    ast.In: lambda left, right: bool(left in right),
    ast.NotIn: lambda left, right: bool(left not in right),
}


@lru_cache(maxsize=1024)
def parse_condition(text: str) -> ast.expr:
    """Raises Invalid (DULY-E154) for whatever is not of this language."""
    if len(text) > LONGEST:
        raise _malformed(f"has {len(text):,} characters; at most {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _malformed("cannot be read") from error
    nodes = list(ast.walk(tree))
    if len(nodes) > MOST_NODES:
        raise _malformed("is too long")
    for node in nodes:
        _check(node)
    return tree


def names_in(tree: ast.expr) -> set[str]:
    """The steps it looks at, and `payload`."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id != "steps"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "steps":
            names.add(str(node.slice.value) if isinstance(node.slice, ast.Constant) else "")
    return names


def holds(text: str, known: Mapping[str, Any]) -> bool:
    """Whether it is so. `known` has for each parent its state and its result, and the payload. What is not there is null; things that
    cannot be compared are not smaller, greater or in one another."""
    return bool(_value(parse_condition(text), known))


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id="steps"):
            return known
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=inner, attr=key):
            return _member(_value(inner, known), key)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _member(_value(inner, known), key)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, known) for item in items]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, known)
        case ast.UnaryOp(operand=operand):
            number = _value(operand, known)
            return -number if isinstance(number, int | float) else None
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, known) for value in values)
        case ast.BoolOp(values=values):
            return any(_value(value, known) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_value(left, known), *(_value(other, known) for other in comparators)]
            return all(_compared(op, values[nth], values[nth + 1]) for nth, op in enumerate(ops))
        case _:
            raise AssertionError(f"{type(node).__name__} was let through")


def _compared(op: ast.cmpop, left: Any, right: Any) -> bool:
    try:
        return _COMPARE[type(op)](left, right)
    except TypeError:
        return isinstance(op, ast.NotIn)


def _member(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool) and -len(value) <= key < len(value):
        return value[key]
    return None


def _check(node: ast.AST) -> None:
    match node:
        case ast.Constant(value=value) if isinstance(value, str | int | float | bool | None):
            return
        case ast.Name() | ast.Attribute() | ast.Load() | ast.List() | ast.Tuple() | ast.BoolOp() | ast.boolop() | ast.Compare():
            return
        case ast.Subscript(slice=ast.Constant(value=key)) if isinstance(key, str | int):
            return
        case ast.UnaryOp(op=ast.Not() | ast.USub()) | ast.Not() | ast.USub():
            return
        case ast.cmpop() if type(node) in _COMPARE:
            return
    raise _malformed(f"cannot have a {type(node).__name__.lower()}")


def _malformed(what: str) -> Invalid:
    hint = 'For example: extract.result.rows > 0 and extract.state == "SUCCEEDED".'
    return Invalid("DULY-E154", f"the condition {what}.", field="steps.when", hint=hint)
