"""Enough of the shell to read the arguments out of a launch script: simple assignments, arrays, quoting, ``$((...))``.

Nothing is run. What only running would tell (``$1``, ``$(...)``, a variable that is not set or that a command sets) stays in the
word, marked by :data:`UNKNOWN`. Branches and loops are read once, line by line; here-documents are no commands.

>>> script = '''N=2
... ARGS=(--nnodes $N   # nodes
...       --lr "1 2")
... torchrun "${ARGS[@]}" train.py --batch-size $((N * 4)) --data $1'''
>>> [word.text for word in read_script(script, "run.sh").commands[0]]
['torchrun', '--nnodes', '2', '--lr', '1 2', 'train.py', '--batch-size', '8', '--data', '\\x00$1']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from clustersim.document import clipped
from clustersim.errors import InputError
from clustersim.importers.shell_arithmetic import evaluate

UNKNOWN, _BLANK = "\0", "\1"
"""Begins, inside a word, the name of what the script does not set; blanks in it do not split the word."""
_MAX_VALUE = 100_000
_MAX_WORDS = 50_000
_MAX_NESTED = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_DECLARING = frozenset(("export", "local", "declare", "readonly", "typeset"))
_OPENING = frozenset(("then", "else", "do", "{", "}"))
_BRANCHING = frozenset(("if", "for", "while", "until", "case"))
_EXPANSION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[@*]\])?(?:(:?[-=])(.*))?", re.DOTALL)
_BEFORE_ARITHMETIC = frozenset(("for", "if", "elif", "while", "until", "!"))
_ENDING = frozenset(("fi", "done", "esac"))
# Commands that set the variables they name, to what only running tells.
_SETTING = frozenset(("read", "mapfile", "readarray", "getopts", "unset", "eval"))
_ARITHMETIC_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*([-+*/%]?)=(?!=)(.*)", re.DOTALL)
_CHANGED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(?:\+\+|--|(?:<<|>>|[-+*/%&|^])?=(?!=))|(?:\+\+|--)\s*([A-Za-z_][A-Za-z0-9_]*)")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_CONTINUED = re.compile(r"\\[ \t]+(?=\n|$)")


@dataclass(frozen=True)
class Word:
    """One word after expansion, and the line it was written on."""

    text: str
    line: int


def shown_unknown(word: str) -> str:
    """A word as the script has it, for a message.

    >>> shown_unknown(read_script("x $(cat y)", "run.sh").commands[0][1].text)
    '$(cat y)'
    """
    return clipped(word.replace(UNKNOWN, "").replace(_BLANK, " "))


def _unknown(name: str, line: int) -> list[Word]:
    return [Word(UNKNOWN + re.sub(r"\s", _BLANK, name), line)]


@dataclass
class _Reader:
    """A cursor over the script, and the variables so far; a value is a list of words.

    ``blocks`` are open, each with whether it runs perhaps; ``conditional`` a statement after ``&&`` or ``||``; ``pending`` the
    here-documents that begin on the next line: what ends them, whether tabs are dropped, their line.
    """

    text: str
    source: str
    variables: dict[str, list[Word]]
    at: int = 0
    line: int = 1
    found: list[list[Word]] = field(default_factory=list)
    size: int = 0
    fixed: frozenset[str] = frozenset()
    blocks: list[bool] = field(default_factory=list)
    conditional: bool = False
    branches: dict[int, None] = field(default_factory=dict)
    branched: dict[str, None] = field(default_factory=dict)
    pending: list[tuple[str, bool, int]] = field(default_factory=list)
    documents: list[Word] = field(default_factory=list)

    def fail(self, message: str) -> NoReturn:
        raise InputError(f"{self.source}:{self.line}: {message}")

    def take(self, count: int = 1) -> str:
        taken = self.text[self.at : self.at + count]
        self.line += taken.count("\n")
        self.at += count
        return taken

    def upcoming(self, start: str) -> bool:
        return self.text.startswith(start, self.at)

    def set(self, name: str, value: list[Word]) -> None:
        """What is given beforehand stays."""
        if self.conditional and not any(self.blocks):
            self.branches[self.line] = None
        if self.conditional or any(self.blocks):
            self.branched[name] = None
        if name not in self.fixed:
            self.variables[name] = value

    def count(self, words: int, characters: int) -> None:
        """Words can be doubled again and again; there is an end to it."""
        self.size += words
        if self.size > _MAX_WORDS or characters > _MAX_VALUE:
            self.fail(f"the script expands to too much; allowed: {_MAX_WORDS:,} words, {_MAX_VALUE:,} characters a value")


@dataclass(frozen=True)
class Script:
    """The commands in order, expanded, without the assignments; what the variables are at the end.

    ``branches`` are lines that run perhaps, or again, ``branched`` the variables set there; ``documents`` the here-documents, at the
    line of their first.
    """

    commands: list[list[Word]]
    variables: dict[str, str]
    branches: tuple[int, ...]
    branched: tuple[str, ...]
    documents: tuple[Word, ...]


def read_script(
    text: str, source: str, variables: Mapping[str, str] | None = None, defaults: Mapping[str, str] | None = None, first_line: int = 1
) -> Script:
    """The commands of a script; assignments are carried out and left out.

    ``variables`` are set beforehand, as by the environment, and what the script assigns to them is ignored; ``defaults`` hold
    until the script assigns to them. InputError with the line for a quote or bracket that is never closed.
    """
    given = {name: [Word(value, 0)] for name, value in {**(defaults or {}), **(variables or {})}.items()}
    reader = _Reader(text, source, given, line=first_line, fixed=frozenset(variables or {}))
    while reader.at < len(reader.text):
        words = _statement(reader)
        if words:
            reader.found.append(words)
    _skip_documents(reader)
    values = {name: " ".join(word.text for word in value) for name, value in reader.variables.items()}
    return Script(reader.found, values, tuple(sorted(reader.branches)), tuple(reader.branched), tuple(reader.documents))


def _statement(reader: _Reader) -> list[Word]:
    words: list[Word] = []
    joined = acted = False
    while reader.at < len(reader.text):
        _skip_blanks(reader)
        if reader.at >= len(reader.text):
            break
        char = reader.text[reader.at]
        if reader.upcoming("((") and all(word.text in _BEFORE_ARITHMETIC for word in words):
            _set_by_arithmetic(reader, _bracketed(reader, 2, "))"))
            acted = True
            continue
        if char in "\n;|&()" and not reader.upcoming("&>"):
            joined = reader.upcoming("&&") or reader.upcoming("||")
            reader.take(2 if joined else 1)
            if char == "\n":
                _skip_documents(reader)
            break
        if char == "#":
            _skip_comment(reader)
            continue
        if char in "<>&":
            _skip_redirection(reader, words)
            continue
        assignment = _ASSIGNMENT.match(reader.text, reader.at)
        if assignment and (not words or words[0].text in _DECLARING):
            _assign(reader, assignment)
            acted = True
            continue
        words += _word(reader)
        if len(words) == 1 and words[0].text in _OPENING:
            _open_or_close(reader, words.pop().text)
    _note_effects(reader, words)
    if joined or words or acted:
        reader.conditional = joined
    return [] if words and words[0].text in _DECLARING else words


def _open_or_close(reader: _Reader, word: str) -> None:
    """A group in braces runs perhaps where it stands after ``&&`` or ``||``."""
    if word == "{":
        reader.blocks.append(reader.conditional)
        reader.conditional = False
    elif word == "}":
        _close(reader)


def _close(reader: _Reader) -> None:
    if reader.blocks:
        reader.blocks.pop()


def _note_effects(reader: _Reader, words: list[Word]) -> None:
    """Branches, and what commands do to variables."""
    names = [word.text for word in words]
    if not names:
        return
    if names[0] in _BRANCHING:
        reader.blocks.append(True)
        reader.branches[words[0].line] = None
    elif names[0] in _ENDING:
        _close(reader)
    while names and names[0] in ("if", "while", "until", "elif", "!"):
        names = names[1:]
    if len(names) > 1 and names[0] in ("for", "select"):
        values = names[3:] if names[2:3] == ["in"] else []
        reader.set(names[1], [Word(values[0], words[0].line)] if len(values) == 1 else _unknown(f"${names[1]}", words[0].line))
    elif names and names[0] == "let":
        for expression in names[1:]:
            _set_by_arithmetic(reader, expression)
    elif names and (names[0] in _SETTING or names[:2] == ["printf", "-v"]):
        for match in (_NAME.match(part) for name in names[1:] for part in name.split()):
            if match and match[0] in reader.variables:
                reader.set(match[0], _unknown(f"${match[0]}", words[0].line))


def _set_by_arithmetic(reader: _Reader, text: str) -> None:
    """``((NAME = ...))``; what is more than that leaves the names that it changes unknown."""
    match = _ARITHMETIC_ASSIGNMENT.fullmatch(text)
    if match and not _CHANGED.search(match[3]):
        name, sign, rest = match.groups()
        result = _arithmetic(reader, f"{name} {sign} ({rest})" if sign else rest)
        reader.set(name, _unknown(f"${name}", reader.line) if result is None else [Word(str(result), reader.line)])
        return
    for match in _CHANGED.finditer(text):
        name = match[1] or match[2]
        reader.set(name, _unknown(f"${name}", reader.line))


def _skip_documents(reader: _Reader) -> None:
    """The here-documents whose ``<<`` stood on the line before."""
    while reader.pending:
        end, tabs, line = reader.pending.pop(0)
        first, body = reader.line, []
        while True:
            if reader.at >= len(reader.text):
                raise InputError(f"{reader.source}:{line}: the here-document that begins here has no line {clipped(end)!r} that ends it")
            newline = reader.text.find("\n", reader.at)
            text = reader.take((len(reader.text) if newline < 0 else newline + 1) - reader.at).removesuffix("\n")
            if (text.lstrip("\t") if tabs else text) == end:
                break
            body.append(text)
        reader.documents.append(Word("\n".join(body), first))


def _skip_blanks(reader: _Reader) -> None:
    while reader.at < len(reader.text):
        if reader.upcoming("\\\n"):
            reader.take(2)
        elif reader.text[reader.at] != "\n" and reader.text[reader.at].isspace():
            reader.take()
        else:
            return


def _skip_comment(reader: _Reader) -> None:
    while reader.at < len(reader.text) and reader.text[reader.at] != "\n":
        reader.take()


def _skip_redirection(reader: _Reader, words: list[Word]) -> None:
    if words and words[-1].text in ("0", "1", "2") and reader.text[reader.at - 1].isdigit():
        words.pop()  # 2>&1
    line, document = reader.line, reader.upcoming("<<") and not reader.upcoming("<<<")
    tabs = reader.upcoming("<<-")
    reader.take((3 if tabs else 2) if document else 0)
    while reader.at < len(reader.text) and reader.text[reader.at] in "<>&|":
        reader.take()
    _skip_blanks(reader)
    if reader.at < len(reader.text) and reader.text[reader.at] not in "\n;|&()<>":
        target = _word(reader, split=False)
        if document:
            reader.pending.append((shown_unknown("".join(word.text for word in target)), tabs, line))


def _assign(reader: _Reader, match: re.Match[str]) -> None:
    name, append = match.groups()
    line = reader.line
    reader.take(match.end() - match.start())
    if reader.upcoming("("):
        value = _array(reader, line)
    elif reader.at < len(reader.text) and not reader.text[reader.at].isspace() and reader.text[reader.at] not in ";|&()<>":
        value = [Word(" ".join(word.text for word in _word(reader, split=False)), line)]
        if append and reader.variables.get(name):
            first, *others = reader.variables[name]
            value = [Word(first.text + value[0].text, line), *others]
            append = ""
    else:
        value = [Word("", line)]
    if append:
        value = reader.variables.get(name, []) + value
    reader.count(len(value), sum(len(word.text) for word in value))
    reader.set(name, value)


def _array(reader: _Reader, line: int) -> list[Word]:
    words: list[Word] = []
    reader.take()
    while True:
        _skip_blanks(reader)
        if reader.at >= len(reader.text):
            raise InputError(f"{reader.source}:{line}: the array that begins here has no closing )")
        char = reader.text[reader.at]
        if char == ")":
            reader.take()
            return words
        if char == "#":
            _skip_comment(reader)
        elif char in "\n;|&(<>":
            reader.take()
        else:
            words += _word(reader)


def _word(reader: _Reader, split: bool = True) -> list[Word]:
    """The next word; an unquoted variable in it may make several, or none."""
    line = reader.line
    parts: list[Word] = []
    current, present = "", False

    def join(pieces: list[Word]) -> None:
        """Array elements and split values: the first continues the word, each other begins a new one."""
        nonlocal current, present, line
        for position, piece in enumerate(pieces):
            if position:
                parts.append(Word(current, line))
                current = ""
            current, line, present = current + piece.text, piece.line or line, True

    while reader.at < len(reader.text):
        char = reader.text[reader.at]
        if char.isspace() or char in ";|&()<>":
            break
        if char == "\\":
            if _CONTINUED.match(reader.text, reader.at):
                reader.fail("the backslash at the end of the line is followed by a blank, so the line ends there; remove the blank")
            taken = reader.take(2)[1:]
            current, present = current + ("" if taken == "\n" else taken), present or taken != "\n"
        elif char == "'":
            current, present = current + _until(reader, "'"), True
        elif char == '"':
            present = True
            pieces = _double_quoted(reader)
            present = bool(pieces)
            join(pieces)
        elif char == "$" or char == "`":
            join([Word(part, word.line) for word in _expand(reader) for part in (word.text.split() if split else [word.text])])
        else:
            current, present = current + reader.take(), True
        reader.count(0, len(current))
    if present:
        parts.append(Word(current, line))
    reader.count(len(parts), 0)
    return parts


def _until(reader: _Reader, end: str) -> str:
    begin, line = reader.at + 1, reader.line
    close = reader.text.find(end, begin)
    if close < 0:
        raise InputError(f"{reader.source}:{line}: the {end} that begins here is never closed")
    reader.take(close + 1 - reader.at)
    return reader.text[begin:close]


def _double_quoted(reader: _Reader) -> list[Word]:
    line = reader.line
    reader.take()
    pieces = [Word("", line)]
    while reader.at < len(reader.text):
        char = reader.text[reader.at]
        if char == '"':
            reader.take()
            return pieces
        if char == "\\" and reader.at + 1 < len(reader.text) and reader.text[reader.at + 1] in '"\\$`\n':
            taken = reader.take(2)[1:]
            added = [Word("" if taken == "\n" else taken, line)]
        elif char in "$`":
            is_array = re.match(r"\$\{\w+\[@\]\}", reader.text[reader.at : reader.at + 200])
            added = _expand(reader)
            if not is_array:
                added = [Word(" ".join(word.text for word in added), line)]
            elif not added and len(pieces) == 1 and not pieces[0].text and reader.upcoming('"'):
                reader.take()
                return []  # "${EMPTY[@]}" is no word at all
        else:
            added = [Word(reader.take(), line)]
        if added:
            pieces[-1] = Word(pieces[-1].text + added[0].text, added[0].line if len(added) > 1 else pieces[-1].line)
            pieces += added[1:]
        reader.count(0, len(pieces[-1].text))
    raise InputError(f'{reader.source}:{line}: the " that begins here is never closed')


def _expand(reader: _Reader) -> list[Word]:
    """The value at ``$...`` or a backquote."""
    line = reader.line
    if reader.upcoming("`"):
        return _unknown(f"`{_until(reader, '`')}`", line)
    if reader.upcoming("$(("):
        inner = _bracketed(reader, 3, "))")
        result = _arithmetic(reader, inner)
        return _unknown(f"$(({inner}))", line) if result is None else [Word(str(result), line)]
    if reader.upcoming("$("):
        return _unknown(f"$({_bracketed(reader, 2, ')')})", line)
    if reader.upcoming("${"):
        inner = _bracketed(reader, 2, "}")
        match = _EXPANSION.fullmatch(inner)
        if match is None or inner.count("${") > _MAX_NESTED:
            return _unknown(f"${{{inner}}}", line)
        name, whole, sign, default = match.groups()
        value = reader.variables.get(name)
        if value is not None and (default is None or not sign.startswith(":") or any(word.text for word in value)):
            return value if whole else value[:1]
        if default is None:
            return _unknown(f"${name}", line)
        nested = _Reader(default, reader.source, reader.variables, line=line, size=reader.size, fixed=reader.fixed)
        given = [Word(" ".join(word.text for word in _words(nested)), line)]
        if sign.endswith("="):
            reader.set(name, given)
        return given
    reader.take()
    name = _NAME.match(reader.text, reader.at)
    if name is None:
        special = reader.take() if reader.at < len(reader.text) and reader.text[reader.at] in "0123456789@*#?$!" else ""
        return _unknown(f"${special}", line) if special else [Word("$", line)]
    reader.take(len(name[0]))
    value = reader.variables.get(name[0])
    return _unknown(f"${name[0]}", line) if value is None else value[:1]  # of an array its first


def _words(reader: _Reader) -> list[Word]:
    """All that is left, as one text has it."""
    words: list[Word] = []
    while reader.at < len(reader.text):
        _skip_blanks(reader)
        before = reader.at
        words += _word(reader, split=False)
        if reader.at == before and reader.at < len(reader.text):
            words.append(Word(reader.take(), reader.line))
    return words


def _bracketed(reader: _Reader, opening: int, end: str) -> str:
    line, begin = reader.line, reader.at + opening
    depth, position = 0, begin
    opener = "{" if end == "}" else "("
    while position < len(reader.text):
        quoted = _QUOTED.match(reader.text, position) if end == ")" else None
        if quoted:
            position = quoted.end()
            continue
        if depth == 0 and reader.text.startswith(end, position):
            reader.take(position + len(end) - reader.at)
            return reader.text[begin:position]
        depth += (reader.text[position] == opener) - (reader.text[position] == end[0])
        position += 1
    raise InputError(f"{reader.source}:{line}: the {clipped(reader.text[reader.at : begin])} that begins here is never closed")


def _arithmetic(reader: _Reader, text: str) -> int | None:
    """Whole numbers, + - * / % and variables; None for anything else."""
    if len(text) > 1000 or text.count("${") + text.count("$(") > _MAX_NESTED or '"' in text:
        return None
    if "$" in text:
        nested = _Reader(f'"{text}"', reader.source, reader.variables, line=reader.line, size=reader.size)
        text = " ".join(word.text for word in _double_quoted(nested))

    def value(match: re.Match[str]) -> str:
        words = reader.variables.get(match[1], [])
        number = words[0].text if len(words) == 1 else ""
        return number if re.fullmatch(r"0|[1-9]\d{0,14}", number, re.ASCII) else "unknown"  # 010 is octal

    return evaluate(re.sub(r"([A-Za-z_][A-Za-z0-9_]*)", value, text))
