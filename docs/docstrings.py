"""Docstrings as Markdown: their examples as blocks of code, names without the mark-up of their kind."""

from __future__ import annotations

import re

import griffe

_EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", flags=re.DOTALL | re.MULTILINE)
_ROLE = re.compile(r":(?:func|mod|class|meth|attr):`~?([^`]+)`")


def as_markdown(text: str) -> str:
    """
    >>> as_markdown("See :func:`~a.b`.\\n\\n>>> 1 + 1\\n2\\n")
    'See `a.b`.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n'
    """
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```\n", _ROLE.sub(r"`\1`", text))


class Docstrings(griffe.Extension):
    """Used by mkdocstrings when the site is built."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
