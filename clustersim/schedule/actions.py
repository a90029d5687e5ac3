"""The vocabulary of schedules: actions that print to the text torch.distributed.pipelining uses.

>>> str(Action("F", 0, 3)), str(Overlap(Action("F", 0, 4), Action("B", 7, 3)))
('0F3', '(0F4;7B3)OVERLAP_F_B')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

if TYPE_CHECKING:
    from clustersim.schedule.torch_csv import Communication

class Action(NamedTuple):
    """One micro-batch through one stage: F forward, B full backward, I input gradient, W weight gradient (B = I and W)."""

    kind: str
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


class Overlap(NamedTuple):
    """A forward and a full backward that run as one: both inputs are there before it starts, both results when it ends."""

    forward: Action
    backward: Action

    def __str__(self) -> str:
        return f"({self.forward};{self.backward})OVERLAP_F_B"


Actions = tuple[tuple[Action | Overlap, ...], ...]
"""By rank, in order."""


@dataclass(frozen=True)
class Schedule:
    """What each pipeline rank does, in order. Knows no time.

    ``placement[stage]`` is the pipeline rank that holds the stage; ``actions[rank]`` its ordered actions. Where ``pipes`` is 2 the
    model lies twice on the ranks: the stages of the second copy follow those of the first, and a micro-batch goes through one copy.
    Where ``slices`` is more than 1 a micro-batch travels in so many slices of its sequence, and an action's ``micro_batch``
    counts slices: slice j of micro-batch i is i x slices + j. Of several ``steps`` the micro-batches are numbered on. Without
    ``flushes`` the next step begins before this one has drained, with older weights.
    """

    name: str
    micro_batches: int
    placement: tuple[int, ...]
    actions: Actions
    pipes: int = 1
    slices: int = 1
    flushes: bool = True
    steps: int = 1

    @property
    def passes(self) -> int:
        """Micro-batches of a step, or slices of them."""
        return self.micro_batches * self.slices

    def step(self, action: Action) -> int:
        """The step that the action belongs to."""
        return action.micro_batch // self.passes

    @property
    def ranks(self) -> int:
        return len(self.actions)

    @property
    def stages(self) -> int:
        """Stages of the model; those of a second copy are not counted."""
        return len(self.placement) // self.pipes

    @property
    def chunks(self) -> int:
        """Stages per rank, those of a second copy included."""
        return len(self.placement) // self.ranks

    def twin(self, stage: int) -> int | None:
        """The same stage of the other copy of the model, None when there is one copy.

        >>> Schedule("x", 2, (0, 1, 1, 0), ((), ()), pipes=2).twin(3)
        1
        """
        return (stage + self.stages) % len(self.placement) if self.pipes == 2 else None

    def target(self, action: Action) -> int | None:
        """The stage that uses the action's result, None when none does.

        >>> schedule = Schedule("x", 1, (0, 1, 1, 0), ((), ()), pipes=2)
        >>> schedule.target(Action("F", 1, 0)), schedule.target(Action("I", 3, 0)), schedule.target(Action("W", 3, 0))
        (None, 2, None)
        """
        if action.kind == "F":
            return action.stage + 1 if (action.stage + 1) % self.stages else None
        return action.stage - 1 if action.stage % self.stages and action.kind != "W" else None

    def source(self, action: Action) -> int | None:
        """The stage whose result the action needs, None when it is the first in its direction.

        >>> schedule = Schedule("x", 1, (0, 1, 1, 0), ((), ()), pipes=2)
        >>> schedule.source(Action("F", 1, 0)), schedule.source(Action("F", 2, 0)), schedule.source(Action("B", 2, 0))
        (0, None, 3)
        """
        if action.kind == "F":
            return action.stage - 1 if action.stage % self.stages else None
        return action.stage + 1 if (action.stage + 1) % self.stages and action.kind != "W" else None


@overload
def single(actions: Iterable[Action | Overlap]) -> Iterator[Action]: ...
@overload
def single(actions: Iterable[Action | Overlap | Communication]) -> Iterator[Action | Communication]: ...
def single(actions: Iterable[Action | Overlap | Communication]) -> Iterator[Action | Communication]:
    """The actions in order, those that run as one after another.

    >>> [str(action) for action in single([Overlap(Action("F", 0, 1), Action("B", 0, 0))])]
    ['0F1', '0B0']
    """
    for action in actions:
        if isinstance(action, Overlap):
            yield from action
        else:
            yield action


def most_in_flight(schedule: Schedule) -> tuple[int, ...]:
    """For each rank the most forwards (of one stage each) whose backward, weight gradient included, has not ended.

    >>> most_in_flight(Schedule("x", 2, (0,), ((Action("F", 0, 0), Action("F", 0, 1), Action("B", 0, 0), Action("B", 0, 1)),)))
    (2,)
    """
    result = []
    for actions in schedule.actions:
        held = most = 0
        for action in single(actions):
            held += {"F": 1, "B": -1, "I": 0, "W": -1}[action.kind]
            most = max(most, held)
        result.append(most)
    return tuple(result)
