"""Who waits for whom when nothing moves any more."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np

from clustersim.program.kinds import KINDS
from clustersim.program.program import Program

_LONGEST_SHOWN = 12


def op_name(program: Program, op: int) -> str:
    """``rank 2 backward of stage 1 micro-batch 0``."""
    text = f"rank {program.rank[op]} {KINDS[program.kind[op]]} of stage {program.stage[op]}"
    if program.micro_batch[op] >= 0:
        text += f" micro-batch {program.micro_batch[op]}"
    return text


def explain(program: Program, ended: np.ndarray, arrived: np.ndarray) -> str:
    """One line that spells out a cycle of waits among the ops that have not ended.

    An op waits for its dependencies, for the op before it in an in-order stream, and for members of its activity
    that have not arrived.
    """
    cycle = find_cycle(_waits(program, ended.tolist(), arrived.tolist()))
    if not cycle:
        stuck = int(np.argmin(ended))
        return f"deadlock: {op_name(program, stuck)} waits for something that never happens"
    shown = cycle[:_LONGEST_SHOWN]
    chain = " waits for ".join(op_name(program, op) for op in shown)
    if len(shown) < len(cycle):
        chain += f" waits for ... ({len(cycle) - len(shown)} more)"
    return f"deadlock: {chain} waits for {op_name(program, cycle[0])}"


def _waits(program: Program, ended: list[bool], arrived: list[bool]) -> dict[int, list[int]]:
    waits: dict[int, list[int]] = defaultdict(list)
    for op, on in zip(program.dependency_op.tolist(), program.dependency_on.tolist(), strict=True):
        if not ended[op] and not ended[on]:
            waits[op].append(on)
    for stream in program.streams:
        if stream.in_order:
            in_row = stream.ops.tolist()
            for before, op in itertools.pairwise(in_row):
                if not ended[before]:
                    waits[op].append(before)
    members: dict[int, list[int]] = defaultdict(list)
    for op in np.flatnonzero(program.activity >= 0).tolist():
        members[int(program.activity[op])].append(op)
    for group in members.values():
        absent = [op for op in group if not arrived[op]]
        for op in group:
            waits[op] += [other for other in absent if other != op]
    return waits


def find_cycle(waits: dict[int, list[int]]) -> list[int]:
    """A cycle of a directed graph, each node pointing to the next and the last to the first; empty when there is none.

    >>> find_cycle({1: [2], 2: [3], 3: [2]})
    [2, 3]
    """
    state: dict[int, int] = {}  # 1 on the current path, 2 done
    for root in list(waits):
        if root in state:
            continue
        path, iterators = [root], [iter(waits.get(root, ()))]
        state[root] = 1
        while path:
            for following in iterators[-1]:
                if state.get(following) == 1:
                    return path[path.index(following) :]
                if following not in state:
                    state[following] = 1
                    path.append(following)
                    iterators.append(iter(waits.get(following, ())))
                    break
            else:
                state[path.pop()] = 2
                iterators.pop()
    return []
