"""Which rank is which: parallel degrees laid out over rank numbers, and the groups that communicate.

>>> grid = Grid(tensor=2, data=3, pipeline=2)
>>> grid.rank(pipeline=1, copy=0, tensor=1), grid.group("tensor", 0, 1), grid.group("data", 1)
(7, (2, 3), (6, 8, 10))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np

Index = TypeVar("Index", int, "np.ndarray")
"""One, or many at once."""
DEFAULT_ORDER = ("tensor", "context", "data", "pipeline")
DIMENSIONS = ("tensor", "context", "data", "shard", "replica", "expert", "expert_data", "pipeline", "host")
"""Along which groups lie. Beside the degrees: the ``shard`` groups that partitioned state is divided over, the ``replica`` groups of
those that hold the same part, the ``expert`` groups that divide the experts, the ``expert_data`` groups with the same experts; with its
``host`` each rank is alone."""


@dataclass(frozen=True)
class Grid:
    """Parallel degrees; ``order`` names them fastest-varying first.

    A *copy* of a pipeline is one data and context coordinate: copy = data x contexts + context. All copies hold the same weights.
    ``expert`` groups are cut out of the data ranks, ``shard`` (0: all copies) neighbouring copies divide partitioned state.
    """

    tensor: int
    data: int
    pipeline: int
    context: int = 1
    expert: int = 1
    shard: int = 0
    order: tuple[str, ...] = DEFAULT_ORDER

    @property
    def ranks(self) -> int:
        return self.tensor * self.copies * self.pipeline

    @property
    def copies(self) -> int:
        return self.data * self.context

    @property
    def shards(self) -> int:
        """Copies over which partitioned state is divided."""
        return self.shard or self.copies

    def stride(self, dimension: str) -> int:
        """Distance in rank numbers between neighbours along a degree."""
        stride = 1
        for name in self.order[: self.order.index(dimension)]:
            stride *= getattr(self, name)
        return stride

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        return tuple(self.stride(name) for name in ("pipeline", "data", "context", "tensor"))

    def rank(self, pipeline: int, copy: Index, tensor: Index) -> Index:
        of_pipeline, of_data, of_context, of_tensor = self._strides
        data, context = divmod(copy, self.context)
        return pipeline * of_pipeline + data * of_data + context * of_context + tensor * of_tensor

    def key(self, dimension: str, copy: Index, tensor: Index) -> Index | tuple[Index, ...]:
        """Ranks of one pipeline stage are in one group along a dimension when they have the same key."""
        data, context = divmod(copy, self.context)
        match dimension:
            case "tensor":
                return copy
            case "context":
                return data, tensor
            case "data":
                return tensor
            case "shard":
                return copy // self.shards, tensor
            case "replica":
                return copy % self.shards, tensor
            case "expert":
                return data // self.expert, context, tensor
            case "expert_data":
                return data % self.expert, tensor
            case _:
                return copy, tensor

    def size(self, dimension: str) -> int:
        """Members of a group along a dimension; 2 along the pipeline."""
        return {
            "tensor": self.tensor, "context": self.context, "data": self.copies, "shard": self.shards,
            "replica": self.copies // self.shards, "expert": self.expert, "expert_data": self.copies // self.expert, "pipeline": 2,
            "host": 1,
        }[dimension]  # fmt: skip

    def group(self, dimension: str, pipeline: int, copy: int = 0, tensor: int = 0) -> tuple[int, ...]:
        """The ranks of a pipeline stage that are in a group with one of them."""
        key = self.key(dimension, copy, tensor)
        return tuple(
            self.rank(pipeline, other, t)
            for other in range(self.copies)
            for t in range(self.tensor)
            if self.key(dimension, other, t) == key
        )
