"""Arithmetic of the shell on whole numbers, ``$((...))``, without running anything."""

from __future__ import annotations

import ast
import operator

_LARGEST = 10**15


def evaluate(expression: str) -> int | None:
    """The value of whole numbers under ``+ - * / %`` and brackets; None for anything else, and beyond 10^15.

    Quotients are cut towards zero, as the shell's.

    >>> evaluate("(7 - 21) / 4 * 2"), evaluate("-7 % 4"), evaluate("1 << 3"), evaluate("1 / 0")
    (-6, -3, None, None)
    """
    try:
        return _value(ast.parse(expression.replace("//", "?").replace("/", "//").strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        result = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        result = -_value(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    else:
        raise ValueError("no arithmetic on whole numbers")
    if abs(result) > _LARGEST:
        raise ValueError("too large")
    return result


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b)


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: _quotient, ast.Mod: _remainder}
