"""The trace: what happened, as tables with times in integer picoseconds. It is the truth; everything after it only reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.engine.simulate import Outcome
from clustersim.program.kinds import KINDS, MEMORY, PARTS
from clustersim.program.program import Memory, Program

_LETTER = {"forward": "F", "backward": "B", "recompute": "R", "input": "I", "weight": "W"}


@dataclass(frozen=True)
class Trace:
    """``ops``: op, rank, stream, kind, name, stage, layer, micro_batch, start_ps, end_ps, wait_ps, bytes, flops, group, peer, an op a row;
    ``dependencies``: op, on; ``links``: link, start_ps, end_ps, rate_bytes_s, disjoint in time for each link;
    ``memory``: rank, time_ps, bytes (a signed change), what. Where an op has no stage, layer, micro-batch or peer it is -1.
    """

    ops: pd.DataFrame
    dependencies: pd.DataFrame
    links: pd.DataFrame
    memory: pd.DataFrame

    @property
    def makespan_ps(self) -> int:
        return int(self.ops["end_ps"].max()) if len(self.ops) else 0


def from_outcome(program: Program, outcome: Outcome) -> Trace:
    """The trace of a simulated program."""
    communicates = program.activity >= 0
    stream_names, stream_code = np.unique([stream.name for stream in program.streams], return_inverse=True)
    groups, group_code = _groups(program)
    names, name_code = _names(program)
    ops = pd.DataFrame(
        {
            "op": np.arange(program.ops),
            "rank": program.rank.astype(np.int32),
            "stream": pd.Categorical.from_codes(stream_code[program.stream], stream_names),
            "kind": pd.Categorical.from_codes(program.kind, list(KINDS)),
            "name": pd.Categorical.from_codes(name_code, names),
            "stage": program.stage,
            "layer": program.layer,
            "micro_batch": program.micro_batch,
            "start_ps": outcome.start_ps,
            "end_ps": outcome.end_ps,
            "wait_ps": np.where(communicates, outcome.start_ps - outcome.arrival_ps, 0),
            "bytes": program.bytes,
            "flops": program.flops,
            "group": pd.Categorical.from_codes(group_code, groups),
            "peer": program.peer.astype(np.int32),
        }
    )
    dependencies = pd.DataFrame({"op": program.dependency_op, "on": program.dependency_on})
    return Trace(ops, dependencies, _link_use(program, outcome), _memory(program.memory, outcome))


def _memory(held: Memory, outcome: Outcome) -> pd.DataFrame:
    """A row per rank, instant and kind that changes then. What is freed at an instant comes before what is added: no sum is too high."""
    freed = held.end >= 0
    rank = np.concatenate([held.rank, held.rank[freed]]).astype(np.int32)
    time = np.concatenate([np.where(held.begin < 0, 0, outcome.start_ps[held.begin]), outcome.end_ps[held.end[freed]]])
    what = np.concatenate([held.what, held.what[freed]]).astype(np.int8)
    order = np.lexsort((what, time, rank))
    rank, time, what = rank[order], time[order], what[order]
    size = np.concatenate([held.bytes, -held.bytes[freed]])[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (rank[1:] != rank[:-1]) | (time[1:] != time[:-1]) | (what[1:] != what[:-1])
    heads = np.flatnonzero(new)
    size = np.add.reduceat(size, heads) if len(heads) else size
    heads, size = heads[size != 0], size[size != 0]
    rank, time, what = rank[heads], time[heads], what[heads]
    order = np.lexsort((what, size > 0, time, rank))
    kind = pd.Categorical.from_codes(what[order], list(MEMORY))
    return pd.DataFrame({"rank": rank[order], "time_ps": time[order], "bytes": size[order], "what": kind})


def _groups(program: Program) -> tuple[list[str], np.ndarray]:
    labels, code_of_transfer = np.unique(["", *(transfer.group for transfer in program.transfers)], return_inverse=True)
    transfer_of_op = np.append(program.activity_transfer, -1)[program.activity] + 1  # activity -1 reads the appended -1
    return labels.tolist(), code_of_transfer[transfer_of_op]


def _names(program: Program) -> tuple[list[str], np.ndarray]:
    """A name per distinct (kind, part, stage, layer, micro-batch): ``3F5 mlp``, ``reduce layer 7``."""
    columns = np.stack([program.kind, program.part, program.stage, program.layer, program.micro_batch]).astype(np.int64)
    spans = columns.max(axis=1, initial=0) + 2  # the values begin at -1
    key = np.ravel_multi_index(columns + 1, spans) if program.ops else columns[0]
    keys, first, code = np.unique(key, return_index=True, return_inverse=True)
    names: dict[str, int] = {}
    name_of_key = [names.setdefault(_name(*columns[:, op].tolist()), len(names)) for op in first]
    return list(names), np.array(name_of_key, dtype=np.int64)[code] if len(keys) else code


def _name(kind_code: int, part_code: int, stage: int, layer: int, micro_batch: int) -> str:
    kind, part = KINDS[kind_code], PARTS[part_code]
    if kind in _LETTER:
        return f"{stage}{_LETTER[kind]}{micro_batch}" + (f" {part}" if part else "")
    text = f"{kind} stage {stage}" if kind in ("send", "recv") else f"{kind} layer {layer}"
    return text if micro_batch < 0 else f"{text} micro-batch {micro_batch}"


def _link_use(program: Program, outcome: Outcome) -> pd.DataFrame:
    """Bytes/s on each link over time, from the paces of the phases; those that meet on a link added up."""
    phase, start, end, pace = outcome.segments
    order = np.argsort(phase, kind="stable")
    bounds = np.searchsorted(phase[order], np.arange(len(program.phases) + 1))
    rows = []
    for number, one in enumerate(program.phases):
        mine = order[bounds[number] : bounds[number + 1]]
        for load in one.loads:
            volume = float(load.volume_bytes * load.connections)
            rows.append((np.full(len(mine), load.link), start[mine], end[mine], pace[mine] * volume))
    link, start, end, rate = (np.concatenate(column) for column in zip(*rows, strict=True)) if rows else (np.zeros(0, int),) * 4
    table = _added_up(link, start, end, rate)
    table["link"] = pd.Categorical.from_codes(table["link"], list(program.links.names))
    return table


def _added_up(link: np.ndarray, start: np.ndarray, end: np.ndarray, rate: np.ndarray) -> pd.DataFrame:
    """Rows sorted by link and time; overlapping rows of one link cut and summed."""
    order = np.lexsort((end, start, link))
    link, start, end, rate = link[order], start[order], end[order], rate[order].astype(np.float64)
    meets = (link[1:] == link[:-1]) & (start[1:] < end[:-1])
    crowded = np.isin(link, link[1:][meets])
    alone = pd.DataFrame({"link": link, "start_ps": start, "end_ps": end, "rate_bytes_s": rate})[~crowded]
    if not crowded.any():
        return alone.reset_index(drop=True)
    return pd.concat([alone, _cut(link[crowded], start[crowded], end[crowded], rate[crowded])]).sort_values(
        ["link", "start_ps"], kind="stable", ignore_index=True
    )


def _cut(link: np.ndarray, start: np.ndarray, end: np.ndarray, rate: np.ndarray) -> pd.DataFrame:
    """Rows between the times at which the rate of a link changes; sums in whole units, which leave nothing behind."""
    units = np.rint(rate * _RATE_UNITS).astype(np.int64)
    at, place = np.concatenate([start, end]), np.concatenate([link, link])
    order = np.lexsort((at, place))
    at, place = at[order], place[order]
    total = np.cumsum(np.concatenate([units, -units])[order])
    active = np.cumsum(np.concatenate([np.ones_like(link), -np.ones_like(link)])[order])
    last = np.append((at[1:] != at[:-1]) | (place[1:] != place[:-1]), True)  # of the changes at one time
    at, place, total, active = at[last], place[last], total[last], active[last]
    busy = active[:-1] > 0  # never after the last change of a link
    return pd.DataFrame(
        {"link": place[:-1][busy], "start_ps": at[:-1][busy], "end_ps": at[1:][busy], "rate_bytes_s": total[:-1][busy] / _RATE_UNITS}
    )


_RATE_UNITS = 1000  # in a byte/s
