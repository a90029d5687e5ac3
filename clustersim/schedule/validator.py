"""The proof of a schedule: what is wrong with it, and where.

Every stage is on one rank and does each of its micro-batches once: forward, then backward, whole or in its two halves. Where
there is communication each send has its receive on the rank of the neighbouring stage, and compute comes after what it needs.
And the ranks together make progress: sends and receives block, in the order of the rank, as they do in the one queue that a rank
has for them in NCCL. What a compute action needs of another rank is such a message, or the other action where no messages are given.

>>> from clustersim.schedule.torch_csv import read
>>> for fault in faults(read("0F0,0B0\\n1B0,1F0", "x.csv").rows):
...     print(fault)
rank 1, position 0: 1B0: comes before 1F0; allowed: after it
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clustersim.errors import InputError
from clustersim.schedule.actions import Action, Overlap, Schedule, single
from clustersim.schedule.torch_csv import Communication, CsvSchedule, Rows, Step, communicates, copies

_MOST_WAITS_SHOWN = 16
_MOST_RANGES_SHOWN = 8

Key = tuple[str, int, int | None]
Where = tuple[int, int]


@dataclass(frozen=True)
class Fault:
    """What is wrong at an action: ``position`` in the order of its rank, from 0 and idle steps not counted; None where one is missing."""

    rank: int
    position: int | None
    action: str
    message: str

    def __str__(self) -> str:
        position = "" if self.position is None else f", position {self.position}"
        return f"rank {self.rank}{position}: {self.action}: {self.message}"


def faults(given: Schedule | Rows) -> list[Fault]:
    """All faults, by rank and position; those that are no single action's at the end of their rank. In time linear in the actions.

    A cycle of waits is reported once, at the action of its lowest rank; where there are several, the first that is found.

    >>> faults([[Action("F", 0, 0), Action("B", 0, 0)]])
    []
    >>> print(faults([[Action("F", 0, 0)]])[0])
    rank 0, position 0: 0F0: has no backward; needed: 0B0, or 0I0 and 0W0
    """
    found = _Found(given)
    result = [*found.faults, *_compute_faults(found)]
    if found.communicates:
        result += _communication_faults(found)
        for rank, row in enumerate(found.rows):
            result += _state_faults(rank, row)
    result += _cycle(found)
    return sorted(dict.fromkeys(result), key=lambda fault: (fault.rank, fault.position is None, fault.position or 0))


def checked(read: CsvSchedule) -> Schedule:
    """The compute of a file that has no fault; InputError with the place of the first fault."""
    for fault in faults(read.rows):
        raise InputError(f"{read.place(fault.rank, fault.position)}: {fault.action}: {fault.message}")
    return read.schedule()


class _Found:
    """Where each action is, and the stages and micro-batches that there should be."""

    def __init__(self, given: Schedule | Rows) -> None:
        self.rows: Rows = given.actions if isinstance(given, Schedule) else given
        self.communicates = communicates(self.rows)
        self.faults: list[Fault] = []
        self.at: dict[Key, Where] = {}
        if isinstance(given, Schedule):
            self.home = dict(enumerate(given.placement))
            self.stages, self.pipes = len(given.placement), given.pipes
            self.passes = given.micro_batches * given.slices
            self.numbered = set(range(self.passes))
        else:
            self._numbers()
        self.per_pipe = self.stages // self.pipes
        half = self.passes // self.pipes
        self._expected = [range(pipe * half, (pipe + 1) * half) for pipe in range(self.pipes)]
        self._places()

    def _numbers(self) -> None:
        """From the rows alone: the rank of a stage is the first that computes it."""
        self.home = {}
        for rank, row in enumerate(self.rows):
            for action in single(row):
                if not isinstance(action, Communication):
                    self.home.setdefault(action.stage, rank)
        for rank, row in enumerate(self.rows):
            for action in single(row):
                self.home.setdefault(action.stage, rank)
        used = {action.micro_batch for row in self.rows for action in single(row) if not isinstance(action, Communication)}
        self.stages, self.passes = len(self.home), len(used)
        self.numbered = {number for number in used if number < self.passes}
        whole = all(stage < self.stages for stage in self.home)
        self.pipes = copies(tuple(self.home[stage] for stage in range(self.stages)), self.rows) if whole else 1

    def _places(self) -> None:
        elsewhere: set[tuple[int, int]] = set()
        beyond: set[int] = set()
        strays: dict[Key, Where] = {}
        for rank, position, action in _singly(self.rows):
            kind, stage, micro_batch = action
            home = self.home.get(stage)
            if stage >= self.stages:
                if stage not in beyond:
                    beyond.add(stage)
                    missing = next((number for number in range(self.stages) if number not in self.home), None)
                    gap = f"from 0 without a gap, {missing} is on no rank"
                    allowed = f"0 to {self.stages - 1}" if missing is None else gap
                    self._add(rank, position, action, f"no such stage; allowed: stages {allowed}")
            elif home != rank and (stage, rank) not in elsewhere:
                elsewhere.add((stage, rank))
                self._add(rank, position, action, f"stage {stage} is on rank {home} and on rank {rank}; allowed: each stage on one rank")
            if micro_batch is not None and stage < self.stages and micro_batch not in self.expected(stage):
                self._add(rank, position, action, f"no such micro-batch; allowed: {self._allowed(stage)}")
            if home != rank:
                strays.setdefault((kind, stage, micro_batch), (rank, position))
                continue
            earlier = self.at.setdefault((kind, stage, micro_batch), (rank, position))
            if earlier != (rank, position) and kind not in ("UNSHARD", "RESHARD"):
                self._add(rank, position, action, f"is there twice, first at position {earlier[1]}; allowed: once")
        self.at = strays | self.at

    def _add(self, rank: int, position: int | None, action: object, message: str) -> None:
        self.faults.append(Fault(rank, position, str(action), message))

    def expected(self, stage: int) -> range:
        """The micro-batches that a stage does."""
        return self._expected[stage // self.per_pipe]

    def _allowed(self, stage: int) -> str:
        numbers = self.expected(stage)
        if not numbers:
            return "none, nothing computes"
        lowest = next((number for number in numbers if number not in self.numbered), None)
        if lowest is not None:
            return f"numbers from 0 without a gap, {lowest} is nowhere"
        return f"{numbers.start} to {numbers.stop - 1}" if len(numbers) > 1 else f"{numbers.start}"

    def source(self, kind: str, stage: int) -> int | None:
        """The stage that an action of this kind and stage has its input from."""
        if kind == "F":
            return stage - 1 if stage % self.per_pipe else None
        return stage + 1 if (stage + 1) % self.per_pipe and kind != "W" else None

    def ends(self, stage: int, micro_batch: int | None) -> Key | None:
        """The backward whose end gives the input gradient."""
        for kind in "BI":
            if (kind, stage, micro_batch) in self.at:
                return kind, stage, micro_batch
        return None


def _singly(rows: Rows) -> Iterator[tuple[int, int, Action | Communication]]:
    for rank, row in enumerate(rows):
        for position, step in enumerate(row):
            if isinstance(step, Overlap):
                yield rank, position, step.forward
                yield rank, position, step.backward
            else:
                yield rank, position, step


def _text(key: Key) -> str:
    kind, stage, micro_batch = key
    return str(Communication(kind, stage, micro_batch))


def _fault(found: _Found, key: Key, message: str) -> Fault:
    rank, position = found.at[key]
    return Fault(rank, position, _text(key), message)


def _compute_faults(found: _Found) -> Iterator[Fault]:
    at = found.at
    for stage in sorted(stage for stage in found.home if stage < found.stages):
        no_forward: list[int] = []
        no_backward: list[int] = []
        for micro_batch in found.expected(stage):
            if micro_batch not in found.numbered:
                continue
            f, b, i, w = ((kind, stage, micro_batch) for kind in "FBIW")
            backward = [key for key in (b, i, w) if key in at]
            if f not in at:
                if backward:
                    yield _fault(found, min(backward, key=at.__getitem__), f"has no forward; needed: {_text(f)} before it")
                else:
                    no_forward.append(micro_batch)
            elif not backward:
                no_backward.append(micro_batch)
            if b in at and len(backward) > 1:
                last = max(backward, key=at.__getitem__)
                yield _fault(found, last, f"one backward too many; allowed: {_text(b)}, or {_text(i)} and {_text(w)}")
            elif i in at and w not in at:
                yield _fault(found, i, f"has no weight gradient; needed: {_text(w)} after it")
            elif w in at and i not in at and b not in at:
                yield _fault(found, w, f"has no input gradient; needed: {_text(i)} before it")
            for first, second in ((f, b), (f, i), (i, w)):
                yield from _order(found, first, second)
        if no_forward:
            first = Action("F", stage, no_forward[0])
            rest = f", nor for {_ranges(no_forward[1:])}" if no_forward[1:] else ""
            yield Fault(found.home[stage], None, str(first), f"is missing{rest}; needed: each micro-batch once")
        if no_backward:
            first_of = no_backward[0]
            rest = f", nor has {_ranges(no_backward[1:])}" if no_backward[1:] else ""
            needed = f"{stage}B{first_of}, or {stage}I{first_of} and {stage}W{first_of}"
            yield _fault(found, ("F", stage, first_of), f"has no backward{rest}; needed: {needed}")


def _ranges(numbers: list[int]) -> str:
    """
    >>> _ranges([1]), _ranges([1, 2, 3, 7])
    ('micro-batch 1', 'micro-batches 1-3, 7')
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in parts[:_MOST_RANGES_SHOWN]]
    more = ", ..." if len(parts) > _MOST_RANGES_SHOWN else ""
    return f"micro-batch{'es' if len(numbers) > 1 else ''} {', '.join(texts)}{more}"


def _order(found: _Found, first: Key, second: Key) -> Iterator[Fault]:
    """A fault where both are on one rank, in the wrong order or in one pair."""
    before, after = found.at.get(first), found.at.get(second)
    if before and after and before[0] == after[0] and before[1] >= after[1]:
        how = "runs together with" if before == after else "comes before"
        yield _fault(found, second, f"{how} {_text(first)}; allowed: after it")


def _communication_faults(found: _Found) -> Iterator[Fault]:
    """Messages and what makes and uses them."""
    at, home = found.at, found.home
    for key in at:
        kind, stage, micro_batch = key
        letter = kind[-1]
        if stage >= found.stages:
            continue
        if kind.startswith("SEND"):
            # What a stage sends forward is what the next has as its source, and the other way round.
            peer = found.source("B" if letter == "F" else "F", stage)
            made = ("F", stage, micro_batch) if letter == "F" else found.ends(stage, micro_batch)
            yield from _message(found, key, peer, "RECV_" + letter, "receives it")
            if made is None or made not in at:
                yield _fault(found, key, f"sends what nothing makes; needed: {_text(made or ('B', stage, micro_batch))} before it")
            else:
                yield from _order(found, made, key)
        elif kind.startswith("RECV"):
            peer = found.source(letter, stage)
            yield from _message(found, key, peer, "SEND_" + letter, "sends it")
            user = ("F", stage, micro_batch) if letter == "F" else found.ends(stage, micro_batch)
            if user is None or user not in at:
                yield _fault(found, key, f"receives what nothing uses; needed: {_text(user or ('B', stage, micro_batch))} after it")
        elif kind in ("F", "B", "I"):
            source = found.source(kind, stage)
            if source is None or home.get(source, home[stage]) == home[stage]:
                continue
            received = ("RECV_F" if kind == "F" else "RECV_B", stage, micro_batch)
            if received in at:
                yield from _order(found, received, key)
            else:
                yield _fault(found, key, f"its input does not arrive; needed: {_text(received)} before it")


def _message(found: _Found, key: Key, peer: int | None, half: str, does: str) -> Iterator[Fault]:
    """That a send or receive has its other half, where stages on two ranks have something to exchange."""
    _, stage, micro_batch = key
    if peer is None or peer not in found.home:
        yield _fault(found, key, f"stage {stage} has no neighbour on that side; allowed: messages between neighbouring stages")
    elif found.home[peer] == found.home[stage]:
        both = f"stages {min(stage, peer)} and {max(stage, peer)} are both on rank {found.home[stage]}"
        yield _fault(found, key, f"{both}; allowed: messages between ranks")
    elif (half, peer, micro_batch) not in found.at:
        yield _fault(found, key, f"nobody {does}; needed: {_text((half, peer, micro_batch))} on rank {found.home[peer]}")


def _state_faults(rank: int, row: Sequence[Step]) -> Iterator[Fault]:
    """Parameters are there when they are used, gathered and dropped in turn, gradients reduced at the end; of stages that say so."""
    sharded = {step.stage for step in row if step[0] in ("UNSHARD", "RESHARD")}
    last = {action.stage: position for position, step in enumerate(row) for action in single([step]) if action.kind in ("B", "W")}
    held: set[int] = set()
    for position, step in enumerate(row):
        for action in step if isinstance(step, Overlap) else (step,):
            kind, stage, _ = action
            message = ""
            if kind == "UNSHARD":
                message = f"stage {stage} is there already; allowed: after {stage}RESHARD" if stage in held else ""
                held.add(stage)
            elif kind == "RESHARD":
                message = "" if stage in held else f"stage {stage} is not there; allowed: after {stage}UNSHARD"
                held.discard(stage)
            elif kind == "REDUCE_GRAD":
                if position < last.get(stage, -1):
                    message = f"comes before {row[last[stage]]}; allowed: after the last backward of the stage"
            elif isinstance(action, Action) and stage in sharded and stage not in held:
                message = f"the parameters are not there; needed: {stage}UNSHARD before it"
            if message:
                yield Fault(rank, position, str(action), message)


def _cycle(found: _Found) -> list[Fault]:
    """Run the ranks until all are through or none can go on; then who waits for whom."""
    rows = found.rows
    head = [0] * len(rows)
    # A rank sleeps until another has done so many actions.
    sleeping: dict[Where, list[int]] = {}
    waits: dict[int, Where] = {}
    awake = deque(range(len(rows)))
    while awake:
        rank = awake.popleft()
        while head[rank] < len(rows[rank]):
            wait = next((wait for wait in _waits(found, rank, head[rank]) if head[wait[0]] < wait[1]), None)
            if wait is not None:
                waits[rank] = wait
                sleeping.setdefault(wait, []).append(rank)
                break
            head[rank] += 1
            awake.extend(sleeping.pop((rank, head[rank]), ()))
    stuck = next((rank for rank, row in enumerate(rows) if head[rank] < len(row)), None)
    if stuck is None:
        return []
    rank = stuck
    order: dict[int, None] = {}
    while rank not in order:
        order[rank] = None
        rank = waits[rank][0]
    ranks = list(order)
    ranks = ranks[ranks.index(rank) :]
    lowest = ranks.index(min(ranks))
    ranks = ranks[lowest:] + ranks[:lowest]
    first = ranks[0]
    return [Fault(first, head[first], str(rows[first][head[first]]), f"deadlock: {_told(found, ranks, head, waits)}")]


def _waits(found: _Found, rank: int, position: int) -> Iterator[Where]:
    """(rank, number of its actions done) that the action waits for. Where what it needs is nowhere, that is a fault of its own."""
    step = found.rows[rank][position]
    for kind, stage, micro_batch in step if isinstance(step, Overlap) else (step,):
        if kind.startswith(("SEND", "RECV")):
            # The other half of the message has been reached.
            sends = kind.startswith("SEND")
            peer = found.source("B" if (kind[-1] == "F") == sends else "F", stage)
            other = found.at.get((("RECV" if sends else "SEND") + kind[4:], -1 if peer is None else peer, micro_batch))
            if other is not None and other[0] != rank:
                yield other
        elif kind in ("F", "B", "I"):
            source = found.source(kind, stage)
            if source is None or (found.communicates and found.home.get(source) != rank):
                continue
            needed = ("F", source, micro_batch) if kind == "F" else found.ends(source, micro_batch)
            if needed in found.at:
                other_rank, other_position = found.at[needed]
                yield other_rank, other_position + 1


def _told(found: _Found, ranks: list[int], head: list[int], waits: dict[int, Where]) -> str:
    """The waits in words, those in the middle of a very long cycle left out."""
    rows = found.rows
    parts = [f"{rows[ranks[0]][head[ranks[0]]]} on rank {ranks[0]}"]
    for rank in ranks:
        other, done = waits[rank]
        # A compute action has to be through, the other half of a message to be reached.
        position = done if isinstance(rows[rank][head[rank]], Communication) else done - 1
        part = f"waits for {rows[other][position]} on rank {other}" if (other, position) != (rank, head[rank]) else "waits for itself"
        if position != head[other]:
            part += f", which comes after {rows[other][head[other]]}"
        parts.append(part)
    if len(parts) > _MOST_WAITS_SHOWN + 1:
        half = _MOST_WAITS_SHOWN // 2
        parts = [*parts[: half + 1], f"... {len(parts) - 1 - 2 * half} more waits ...", *parts[-half:]]
    return parts[0] + " " + ", which ".join(parts[1:])
