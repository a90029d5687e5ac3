"""The vocabulary of schedules: actions that print to the text torch.distributed.pipelining uses.

>>> str(Action("F", 0, 3)), Action("B", 2, 1)
('0F3', Action(kind='B', stage=2, micro_batch=1))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Action(NamedTuple):
    """One micro-batch through one stage: F forward, B full backward."""

    kind: str
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


@dataclass(frozen=True)
class Schedule:
    """What each pipeline rank does, in order. Knows no time.

    ``placement[stage]`` is the pipeline rank that holds the stage; ``actions[rank]`` its ordered actions.
    """

    name: str
    micro_batches: int
    placement: tuple[int, ...]
    actions: tuple[tuple[Action, ...], ...]

    @property
    def ranks(self) -> int:
        return len(self.actions)

    @property
    def stages(self) -> int:
        return len(self.placement)

    @property
    def chunks(self) -> int:
        """Stages per rank."""
        return self.stages // self.ranks


def contiguous(p: int, v: int) -> tuple[int, ...]:
    """Stage -> rank, each rank holding ``v`` neighbouring stages.

    >>> contiguous(2, 2)
    (0, 0, 1, 1)
    """
    return tuple(stage // v for stage in range(p * v))


def modular(p: int, v: int) -> tuple[int, ...]:
    """Stage -> rank, dealt out in turn (looped placement).

    >>> modular(2, 2)
    (0, 1, 0, 1)
    """
    return tuple(stage % p for stage in range(p * v))


def most_in_flight(schedule: Schedule) -> tuple[int, ...]:
    """For each rank the most forwards (of one stage each) whose backward has not ended.

    >>> most_in_flight(Schedule("x", 2, (0,), ((Action("F", 0, 0), Action("F", 0, 1), Action("B", 0, 0), Action("B", 0, 1)),)))
    (2,)
    """
    result = []
    for actions in schedule.actions:
        held = most = 0
        for action in actions:
            held += {"F": 1, "B": -1}[action.kind]
            most = max(most, held)
        result.append(most)
    return tuple(result)
