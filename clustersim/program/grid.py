"""Which rank is which: data x pipeline x tensor degrees laid out over rank numbers.

>>> grid = Grid(tensor=2, data=3, pipeline=2)
>>> grid.rank(pipeline=1, data=0, tensor=1), grid.tensor_group(0, 1), grid.data_group(1, 0)
(7, (2, 3), (6, 8, 10))
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ORDER = ("tensor", "data", "pipeline")


@dataclass(frozen=True)
class Grid:
    """Parallel degrees; ``order`` names them fastest-varying first."""

    tensor: int
    data: int
    pipeline: int
    order: tuple[str, ...] = DEFAULT_ORDER

    @property
    def ranks(self) -> int:
        return self.tensor * self.data * self.pipeline

    def stride(self, dimension: str) -> int:
        """Distance in rank numbers between neighbours along a dimension."""
        stride = 1
        for name in self.order[: self.order.index(dimension)]:
            stride *= getattr(self, name)
        return stride

    def rank(self, pipeline: int, data: int, tensor: int) -> int:
        return pipeline * self.stride("pipeline") + data * self.stride("data") + tensor * self.stride("tensor")

    def tensor_group(self, pipeline: int, data: int) -> tuple[int, ...]:
        """The ranks that split one stage of one replica."""
        return tuple(self.rank(pipeline, data, tensor) for tensor in range(self.tensor))

    def data_group(self, pipeline: int, tensor: int) -> tuple[int, ...]:
        """The ranks that hold copies of one tensor shard of one stage."""
        return tuple(self.rank(pipeline, data, tensor) for data in range(self.data))
