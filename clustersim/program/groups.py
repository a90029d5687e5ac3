"""All groups along a dimension of the grid at once, and which of them lie alike on the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clustersim.cluster.blocks import Block
from clustersim.program.grid import Grid


class Groups(NamedTuple):
    """``members[group, place]`` are copies, numbered data and context x tensor + tensor; ``of_copy`` has the group of each copy."""

    members: np.ndarray
    of_copy: np.ndarray


class Pattern(NamedTuple):
    """Groups that lie alike: their numbers, their ranks as rows, and a key that is the same for alike groups of other places too."""

    groups: np.ndarray
    ranks: np.ndarray
    key: bytes


def groups_along(grid: Grid, dimension: str) -> Groups:
    """Numbered by their first copies. Along the pipeline, and beside its host, each copy is alone.

    >>> groups_along(Grid(tensor=2, data=2, pipeline=1), "data").members
    array([[0, 2],
           [1, 3]])
    """
    copy, tensor = np.divmod(np.arange(grid.copies * grid.tensor), grid.tensor)
    key = grid.key(dimension, copy, tensor)
    code = np.zeros(len(copy), dtype=np.int64)
    for part in key if isinstance(key, tuple) else (key,):
        code = code * (int(np.max(part)) + 1) + part
    of_copy = numbered(code)
    return Groups(np.argsort(of_copy, kind="stable").reshape(int(of_copy.max()) + 1, -1), of_copy)


def numbered(values: np.ndarray) -> np.ndarray:
    """A number for each value, from 0 in the order of first appearance.

    >>> numbered(np.array([7, 3, 7, 5]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]


def ranks_of(grid: Grid, groups: Groups, ends: Sequence[int]) -> np.ndarray:
    """The ranks of each group as a row: its copies on the pipeline ranks ``ends``, those of a copy together."""
    copy, tensor = np.divmod(groups.members, grid.tensor)
    ranks = np.stack([grid.rank(end, copy, tensor) for end in ends], axis=-1)
    return ranks.reshape(len(ranks), -1)


def patterns(ranks: np.ndarray, blocks: Sequence[Block] | None, gpus_per_node: int) -> list[Pattern]:
    """Groups by how they lie: the same GPUs of their nodes in the same order, and nodes and groups of switches shared by the same members.

    Without ``blocks`` every group is for itself.
    """
    rows = [ranks % gpus_per_node, *(_first_with_same(block.owner(ranks)) for block in blocks)] if blocks else [ranks[:, :0]]
    if blocks is None:
        return [Pattern(np.array([group]), row[None], b"ranks" + row.tobytes()) for group, row in enumerate(ranks)]
    if (ranks[:, 1:] < ranks[:, :-1]).any():
        rows.append(np.argsort(ranks, axis=1, kind="stable"))
    table = np.concatenate([np.full((len(ranks), 1), ranks.shape[1]), *rows], axis=1).astype(np.int64)
    if (table == table[0]).all():
        return [Pattern(np.arange(len(ranks)), ranks, table[0].tobytes())]
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    found = [np.flatnonzero(inverse == number) for number in np.argsort(first)]
    return [Pattern(groups, ranks[groups], table[groups[0]].tobytes()) for groups in found]


def _first_with_same(owners: np.ndarray) -> np.ndarray:
    """By row, for each place the first place that has the same value.

    >>> _first_with_same(np.array([[7, 7, 3, 7, 3]]))
    array([[0, 0, 2, 0, 2]])
    """
    order = np.argsort(owners, axis=1, kind="stable")
    sorted_owners = np.take_along_axis(owners, order, axis=1)
    places = np.arange(owners.shape[1])
    new = np.concatenate([np.ones((len(owners), 1), dtype=bool), sorted_owners[:, 1:] != sorted_owners[:, :-1]], axis=1)
    head = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.take_along_axis(order, head, axis=1), axis=1)
    return first
