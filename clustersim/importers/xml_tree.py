"""A small XML file as plain elements with line numbers, without anything that can grow or fetch.

>>> tree = parse_xml('<system version="1"><cpu numaid="0"/></system>', "topo.xml")
>>> tree.tag, tree.children[0].attributes, tree.children[0].line
('system', {'numaid': '0'}, 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from clustersim.document import clipped
from clustersim.errors import InputError

_MAX_DEPTH = 60
_MAX_ELEMENTS = 20_000


@dataclass(frozen=True, eq=False)
class Element:
    """One element; ``children`` are elements, text between them is dropped."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


def parse_xml(text: str, source: str) -> Element:
    """The root element. InputError with the line for malformed XML, and for any document type or entity declaration: an
    entity can unfold to gigabytes or name another file, and no such file has one."""
    parser = expat.ParserCreate("utf-8")
    top = Element("", {}, 0)
    open_elements = [top]
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        line = parser.CurrentLineNumber
        if len(open_elements) > _MAX_DEPTH or count > _MAX_ELEMENTS:
            raise InputError(f"{source}:{line}: allowed: at most {_MAX_DEPTH} levels and {_MAX_ELEMENTS:,} elements")
        element = Element(tag, attributes, line)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def refuse(*_: object) -> None:
        raise InputError(f"{source}:{parser.CurrentLineNumber}: document types (DTD) and entities are not allowed")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise InputError(f"{source}:{error.lineno}: not valid XML: {clipped(expat.ErrorString(error.code))}") from None
    return top.children[0]
