"""Python that is read and never run: values that stand there as literals, calls with their arguments, and what is neither.

A configuration in Python may do anything when it is imported. So it is parsed, and what is not literal is named instead of guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

LARGEST_SOURCE = 2_000_000


class NotLiteral(ValueError):
    """Something that only running the program would tell."""


@dataclass(frozen=True, slots=True)
class Called:
    """A call, as it is written: the last part of its name, and its arguments."""

    name: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that is not a value of ours: a function, say."""

    name: str


def parse(source: str) -> ast.Module:
    """Parse a module. Raises ValueError when it is none."""
    if len(source) > LARGEST_SOURCE:
        raise ValueError("the file is larger than 2 MB")
    try:
        return ast.parse(source)
    except (SyntaxError, RecursionError, ValueError) as error:
        raise ValueError(f"it is not Python that can be read: {error}") from error


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """What is assigned once to a plain name at the top of the module; others may stand for it."""
    found: dict[str, list[ast.expr]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found.setdefault(node.target.id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def value_of(node: ast.expr, known: Mapping[str, ast.expr], depth: int = 0) -> Any:
    """The value of an expression. Calls become `Called`, timedeltas are computed, unknown names `Reference`. Raises NotLiteral."""
    if depth > 40:
        raise NotLiteral("it is nested too deeply")
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Dict(keys=keys, values=values):
            if any(key is None for key in keys):
                raise NotLiteral(f"line {node.lineno}: ** takes in what stands elsewhere")
            return {
                value_of(key, known, depth + 1): value_of(one, known, depth + 1)
                for key, one in zip(keys, values, strict=True)
                if key is not None
            }
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [value_of(item, known, depth + 1) for item in items]
        case ast.Set(elts=items):
            return {value_of(item, known, depth + 1) for item in items}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(value_of(operand, known, depth + 1), node)
        case ast.BinOp(left=left, op=operation, right=right):
            return _arithmetic(value_of(left, known, depth + 1), operation, value_of(right, known, depth + 1), node)
        case ast.Name(id=name):
            if name in known:
                return value_of(known[name], {key: value for key, value in known.items() if key != name}, depth + 1)
            return Reference(name)
        case ast.Attribute():
            return Reference(dotted(node))
        case ast.Call():
            return _call(node, known, depth)
        case _:
            raise NotLiteral(f"line {node.lineno}: {ast.unparse(node)[:60]} is not a literal")


def dotted(node: ast.expr) -> str:
    """A dotted name as it is written. Raises NotLiteral for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted(value)}.{attribute}"
        case _:
            raise NotLiteral(f"line {node.lineno}: {ast.unparse(node)[:60]} is not a name")


def _call(node: ast.Call, known: Mapping[str, ast.expr], depth: int) -> Any:
    name = dotted(node.func) if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Call) else node.func.attr
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None for keyword in node.keywords):
        raise NotLiteral(f"line {node.lineno}: * and ** take in what stands elsewhere")
    positional = tuple(value_of(argument, known, depth + 1) for argument in node.args)
    named = {keyword.arg: value_of(keyword.value, known, depth + 1) for keyword in node.keywords if keyword.arg is not None}
    if name.rsplit(".", 1)[-1] == "timedelta":
        try:
            return timedelta(*positional, **named)
        except (TypeError, OverflowError) as error:
            raise NotLiteral(f"line {node.lineno}: {ast.unparse(node)[:60]} is not a length of time") from error
    return Called(name, positional, named, ast.unparse(node))


def _arithmetic(left: Any, operation: ast.operator, right: Any, node: ast.expr) -> Any:
    a, b = _number(left, node), _number(right, node)
    match operation:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div() if b:
            return a / b
        case _:
            raise NotLiteral(f"line {node.lineno}: {ast.unparse(node)[:60]} is not a literal")


def _number(value: Any, node: ast.expr) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotLiteral(f"line {node.lineno}: {ast.unparse(node)[:60]} is not a number")
    return value
