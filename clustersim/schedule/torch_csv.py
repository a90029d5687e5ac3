"""Schedules in the CSV format of torch.distributed.pipelining, read and written.

A row is a rank, a cell an action: ``0F3`` (stage, type, micro-batch), ``2UNSHARD``, ``(0F4;7B3)OVERLAP_F_B``. There is no header. A
file of compute alone may hold empty cells, idle steps that say nothing about the order; one with communication holds every
send and receive, and no empty cell. The stage of a SEND is the sender's, of a RECV the receiver's.

>>> print(write(with_communication(read("0F0,0B0\\n1F0,1B0\\n", "two.csv").schedule())), end="")
0F0,0SEND_F0,0RECV_B0,0B0
1RECV_F0,1F0,1B0,1SEND_B0
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from clustersim.document import shown
from clustersim.errors import InputError
from clustersim.schedule.actions import Action, Overlap, Schedule, single
from clustersim.schedule.placements import bidirectional

MAX_FILE_BYTES = 20_000_000
MAX_CELLS = 1_000_000
"""Of a file, idle ones included."""
MAX_NUMBER = 999_999
"""The highest stage and micro-batch."""

_COMPUTE = ("F", "I", "W", "B")
_TRANSFERS = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
_STATE = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
_ALLOWED = "0F3, 0I3, 0W3, 0B3, (0F4;7B3)OVERLAP_F_B, 0SEND_F3, 0RECV_F3, 0SEND_B3, 0RECV_B3, 0UNSHARD, 0RESHARD, 0REDUCE_GRAD"
_SINGLE = re.compile(rf"([0-9]+)({'|'.join((*_COMPUTE, *_TRANSFERS, *_STATE))})([0-9]*)")
_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)\s*OVERLAP_F_B")
_HELD_STAGES = 3  # gathered at a time: those of the next actions


class Communication(NamedTuple):
    """What is no compute: SEND_F, RECV_F, SEND_B, RECV_B of one micro-batch; UNSHARD, RESHARD, REDUCE_GRAD of a stage.

    >>> str(Communication("SEND_F", 0, 3)), str(Communication("UNSHARD", 2, None))
    ('0SEND_F3', '2UNSHARD')
    """

    kind: str
    stage: int
    micro_batch: int | None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{'' if self.micro_batch is None else self.micro_batch}"


Step = Action | Overlap | Communication
Rows = Sequence[Sequence[Step]]


@dataclass(frozen=True)
class CsvSchedule:
    """A file as it stands, right or wrong: ``rows[rank]`` its actions in order, ``columns[rank]`` where they are, from 1."""

    source: str
    rows: tuple[tuple[Step, ...], ...]
    columns: tuple[tuple[int, ...], ...]

    @property
    def communicates(self) -> bool:
        return communicates(self.rows)

    def place(self, rank: int, position: int | None) -> str:
        """``file.csv:ROW, column COLUMN``; of a whole row where there is no position.

        >>> read("0F0,,0B0", "x.csv").place(0, 1)
        'x.csv:1, column 3'
        """
        return f"{self.source}:{rank + 1}" + ("" if position is None else f", column {self.columns[rank][position]}")

    def schedule(self) -> Schedule:
        """Its compute as a schedule; ValueError when a stage lies on several ranks or on none (see ``validator`` for all else)."""
        return compute_schedule(self.rows, PurePath(self.source).stem)


def load(path: str | Path) -> CsvSchedule:
    """Read a file; InputError when it cannot be read, is too large or holds what is no action."""
    path = Path(path)
    try:
        if not path.is_file():
            raise InputError(f"{path}: {'is not a file' if path.exists() else 'no such file'}; expected a schedule as CSV")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES // 10**6} MB; allowed: at most that, and {MAX_CELLS:,} cells")
        return read(path.read_bytes().decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); allowed: a schedule as CSV") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read(text: str, source: str) -> CsvSchedule:
    """The actions of a file; InputError ``source:ROW, column COLUMN: ...`` at the first cell that is none.

    >>> read("0F0, ,0B0,", "x.csv").rows
    ((Action(kind='F', stage=0, micro_batch=0), Action(kind='B', stage=0, micro_batch=0)),)
    >>> read("0F0,0UNSHARD1", "x.csv")
    Traceback (most recent call last):
    ...
    clustersim.errors.InputError: x.csv:1, column 2: '0UNSHARD1' has a micro-batch; allowed: 0UNSHARD
    """
    rows: list[tuple[Step, ...]] = []
    columns: list[tuple[int, ...]] = []
    idle: list[int | None] = []  # the first empty cell with an action behind it
    for row, cells in enumerate(_cells(text, source), 1):
        steps, places = [], []
        for column, cell in enumerate(cells, 1):
            cell = cell.strip()
            if not cell:
                continue
            try:
                steps.append(parse(cell))
            except ValueError as error:
                raise InputError(f"{source}:{row}, column {column}: {error}") from None
            places.append(column)
        rows.append(tuple(steps))
        columns.append(tuple(places))
        idle.append(next((at for at, column in enumerate(places, 1) if at != column), None))
    while rows and not rows[-1]:
        del rows[-1], columns[-1], idle[-1]
    if not rows:
        raise InputError(f"{source}: the file is empty; expected a row of actions for each rank, for example 0F0,0B0")
    empty = next((row for row, steps in enumerate(rows, 1) if not steps), None)
    if empty is not None:
        allowed = "a row of actions for each rank, empty rows only at the end"
        raise InputError(f"{source}:{empty}: rank {empty - 1} has no actions; allowed: {allowed}")
    if communicates(rows):
        for row, gap in enumerate(idle, 1):
            if gap is not None:
                raise InputError(f"{source}:{row}, column {gap}: empty cell; allowed: idle steps only in a file without communication")
    return CsvSchedule(source, tuple(rows), tuple(columns))


def _cells(text: str, source: str) -> Iterable[list[str]]:
    """The cells of each row, no more than are allowed."""
    count = 0
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), skipinitialspace=True)
    try:
        for cells in reader:
            count += len(cells) or 1
            if count > MAX_CELLS:
                raise InputError(f"{source}:{reader.line_num}: too many cells; allowed: at most {MAX_CELLS:,} in a file")
            yield cells
    except csv.Error as error:
        raise InputError(f"{source}:{reader.line_num}: not CSV: {error}; allowed: cells between commas") from None


def parse(cell: str) -> Step:
    """One cell; ValueError that says what is allowed.

    >>> parse("(0F4; 7B3)OVERLAP_F_B") == Overlap(Action("F", 0, 4), Action("B", 7, 3)), parse("1RECV_F0")
    (True, Communication(kind='RECV_F', stage=1, micro_batch=0))
    >>> parse("0UNSHARD2")
    Traceback (most recent call last):
    ...
    ValueError: '0UNSHARD2' has a micro-batch; allowed: 0UNSHARD
    """
    if cell.startswith("("):
        return _parse_pair(cell)
    match = _SINGLE.fullmatch(cell)
    if match is None:
        hint = " (cells are separated by commas, quotes closed)" if any(mark in cell for mark in ";\t\n\r ") else ""
        raise ValueError(f"{shown(cell)} is no action{hint}; allowed: {_ALLOWED}")
    stage, kind, micro_batch = match.groups()
    for what, digits in (("stage", stage), ("micro-batch", micro_batch)):
        if len(digits) > 7 or int(digits or 0) > MAX_NUMBER:
            raise ValueError(f"{shown(cell)} has too high a {what}; allowed: 0 to {MAX_NUMBER:,}")
    if kind in _STATE:
        if micro_batch:
            raise ValueError(f"{shown(cell)} has a micro-batch; allowed: {stage}{kind}")
        return Communication(kind, int(stage), None)
    if not micro_batch:
        raise ValueError(f"{shown(cell)} has no micro-batch; allowed: {stage}{kind} and a number, for example {stage}{kind}0")
    return (Action if kind in _COMPUTE else Communication)(kind, int(stage), int(micro_batch))


def _parse_pair(cell: str) -> Overlap:
    match = _PAIR.fullmatch(cell)
    if match is None:
        raise ValueError(f"{shown(cell)} is no pair; allowed: a forward and a full backward, for example (0F4;7B3)OVERLAP_F_B")
    first, second = (parse(part.strip()) for part in match.groups())
    if not (isinstance(first, Action) and isinstance(second, Action) and first.kind + second.kind == "FB"):
        raise ValueError(f"{shown(cell)} is no pair of a forward and a full backward; allowed: F first, then B, as in (0F4;7B3)OVERLAP_F_B")
    return Overlap(first, second)


def write(rows: Rows) -> str:
    """The text of a file: no header, no idle steps, a line for each rank.

    >>> write([[Action("F", 0, 0), Action("B", 0, 0)]])
    '0F0,0B0\\n'
    """
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def communicates(rows: Rows) -> bool:
    """Whether anything but compute is among the actions.

    >>> communicates([[Action("F", 0, 0)]]), communicates([[Communication("UNSHARD", 0, None)]])
    (False, True)
    """
    return any(isinstance(step, Communication) for row in rows for step in row)


def compute_schedule(rows: Rows, name: str) -> Schedule:
    """The compute of the rows as a schedule; ValueError when a stage lies on several ranks or on none.

    A file does not say that the model lies twice on the ranks: that is read from where the stages are and which micro-batches they do.

    >>> compute_schedule(read("0F0,3F0,3B0,0B0\\n1F0,2F0,2B0,1B0", "x.csv").rows, "x").pipes
    1
    >>> compute_schedule(read("0F0,3F1,3B1,0B0\\n2F1,1F0,1B0,2B1", "x.csv").rows, "x").pipes
    2
    """
    actions = tuple(tuple(step for step in row if not isinstance(step, Communication)) for row in rows)
    ranks: dict[int, int] = {}
    micro_batches = 0
    for rank, row in enumerate(actions):
        for action in single(row):
            if ranks.setdefault(action.stage, rank) != rank:
                raise ValueError(f"stage {action.stage} is on rank {ranks[action.stage]} and on rank {rank}; allowed: one rank")
            micro_batches = max(micro_batches, action.micro_batch + 1)
    missing = next((stage for stage in range(len(ranks)) if stage not in ranks), None)
    if missing is not None:
        raise ValueError(f"stage {missing} is on no rank; allowed: stages are numbered from 0, without a gap")
    placement = tuple(ranks[stage] for stage in range(len(ranks)))
    return Schedule(name, micro_batches, placement, actions, pipes=copies(placement, actions))


def copies(placement: tuple[int, ...], rows: Rows) -> int:
    """2 where the stages lie as two copies of the model, from either end, and each copy does its own half of the micro-batches.

    >>> rows = read("0F0,3F1,3B1,0B0\\n2F1,1F0,1B0,2B1", "x.csv").rows
    >>> copies((0, 1, 1, 0), rows), copies((0, 1, 0, 1), rows)
    (2, 1)
    """
    p = max(placement, default=0) + 1
    v, left = divmod(len(placement), p)
    if p == 1 or left or v % 2 or placement != bidirectional(p, v):
        return 1
    first: dict[int, set[int]] = {0: set(), len(placement) // 2: set()}
    for row in rows:
        for action in single(row):
            if isinstance(action, Action) and action.kind == "F" and action.stage in first:
                first[action.stage].add(action.micro_batch)
    one, other = first.values()
    half = len(one)
    return 2 if one == set(range(half)) and other == set(range(half, 2 * half)) and half else 1


def with_communication(schedule: Schedule, state: bool = False) -> tuple[tuple[Step, ...], ...]:
    """The actions of each rank with the sends and receives between them, none between stages of one rank.

    Ranks run in step, one action each where its inputs are there; what an action sends follows it, and the receive stands in the
    other rank's row at the same instant. So there is one order of everything that both rows of each pair agree with, and blocking
    sends and receives cannot wait for each other. With ``state`` also UNSHARD, RESHARD and REDUCE_GRAD.
    ValueError when the schedule can make no progress.
    """
    rows: list[list[Step]] = [[] for _ in schedule.actions]
    waiting: dict[tuple[str, int, int], int] = {}  # the result a rank waits for
    done: set[tuple[str, int, int]] = set()
    turn = [rank for rank, row in enumerate(schedule.actions) if row]
    position = [0] * schedule.ranks
    while turn:
        ran = []
        for rank in turn:
            missing = next((need for need in _needs(schedule, schedule.actions[rank][position[rank]]) if need not in done), None)
            if missing is None:
                ran.append(rank)
            else:
                waiting[missing] = rank
        following = set()
        for rank in ran:
            rows[rank].append(schedule.actions[rank][position[rank]])
        for rank in ran:
            for action in single([schedule.actions[rank][position[rank]]]):
                if action.kind == "W":
                    continue
                result = ("F" if action.kind == "F" else "B", action.stage, action.micro_batch)
                done.add(result)
                if result in waiting:
                    following.add(waiting.pop(result))
                peer = schedule.target(action)
                if peer is not None and schedule.placement[peer] != rank:
                    rows[rank].append(Communication(f"SEND_{result[0]}", action.stage, action.micro_batch))
                    rows[schedule.placement[peer]].append(Communication(f"RECV_{result[0]}", peer, action.micro_batch))
            position[rank] += 1
            if position[rank] < len(schedule.actions[rank]):
                following.add(rank)
        turn = sorted(following)
    stuck = next((rank for rank, at in enumerate(position) if at < len(schedule.actions[rank])), None)
    if stuck is not None:
        raise ValueError(f"the schedule makes no progress at {schedule.actions[stuck][position[stuck]]} on rank {stuck}")
    return tuple(_with_state(row) if state else tuple(row) for row in rows)


def _needs(schedule: Schedule, step: Action | Overlap) -> Iterable[tuple[str, int, int]]:
    for action in single([step]):
        source = schedule.source(action)
        if source is not None:
            yield "F" if action.kind == "F" else "B", source, action.micro_batch


def _with_state(row: Sequence[Step]) -> tuple[Step, ...]:
    """Parameters are there for the stages of the next actions, three at a time; gradients are reduced after a stage's last backward."""
    computes = [at for at, step in enumerate(row) if not isinstance(step, Communication)]
    wanted: dict[int, list[int]] = {}
    ahead: list[int] = []
    last_backward: dict[int, int] = {}
    for at in reversed(computes):
        stages = [action.stage for action in single([row[at]])]
        ahead = wanted[at] = list(dict.fromkeys([*stages, *ahead]))[:_HELD_STAGES]
        for action in single([row[at]]):
            if action.kind in "BW":
                last_backward.setdefault(action.stage, at)
    # One action ends at most one stage's backward; what it sends goes first.
    reduced = {_last_send(row, at): stage for stage, at in last_backward.items()}
    result: list[Step] = []
    held: list[int] = []
    for at, step in enumerate(row):
        if at in wanted:
            result += (Communication("RESHARD", stage, None) for stage in held if stage not in wanted[at])
            result += (Communication("UNSHARD", stage, None) for stage in wanted[at] if stage not in held)
            held = wanted[at]
        result.append(step)
        if at in reduced:
            result.append(Communication("REDUCE_GRAD", reduced[at], None))
    result += (Communication("RESHARD", stage, None) for stage in held)
    return tuple(result)


def _last_send(row: Sequence[Step], at: int) -> int:
    """The last position at which there is sent before the next compute, the action's own where nothing is."""
    last = at
    for later in range(at + 1, len(row)):
        step = row[later]
        if not isinstance(step, Communication):
            break
        if step.kind.startswith("SEND"):
            last = later
    return last
