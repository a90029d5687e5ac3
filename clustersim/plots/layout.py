"""Which rows a Gantt chart has and which boxes stand in them: pure functions from a table of ops, no drawing.

A row is a rank and a family of streams: all ``send:*`` streams of a rank are one row "send", all ``recv:*`` one row "recv".
A family in which no op takes time has no row (on an ideal cluster communication takes none). The streams of a profiler trace are
numbers, ``7``, or ``1:7`` on a second device: each is a row of its own.

>>> import pandas as pd
>>> ops = pd.DataFrame({"rank": 0, "stream": ["compute", "compute", "send:1"], "kind": ["forward", "forward", "send"], "stage": 0,
...                     "layer": [0, 1, -1], "micro_batch": 0, "start_ps": [0, 5, 9], "end_ps": [5, 9, 9]})
>>> chart = layout(ops)
>>> [row.label for row in chart.rows], chart.boxes.start_ps.tolist(), chart.boxes.end_ps.tolist()
(['rank 0 compute'], [0], [9])
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.analysis.streams import whole_numbers
from clustersim.errors import InputError
from clustersim.plots.style import COMPUTE_KINDS, SHADED_KINDS, short

MAX_RANKS = 64
"""More ranks than this are sampled, unless the caller names them."""

MERGE_ABOVE = 16
"""More ranks than this share one communication row per rank instead of a row per family."""

COMPUTE = "compute"
COMMUNICATION = "communication"
STREAM = "stream"
_FAMILIES = (COMPUTE, "tensor", "context", "expert", "data", "offload", "fetch", "send", "recv")
_WHOLE = ("rank", "start_ps", "end_ps", "stage", "layer", "micro_batch")
_NUMBER = re.compile(r"[\d:]+")


@dataclass(frozen=True)
class Row:
    """One horizontal band of the chart; in a folded run its rank stands for ``copies`` alike, itself among them."""

    rank: int
    family: str
    copies: int = 1

    @property
    def rank_label(self) -> str:
        """
        >>> Row(0, COMPUTE, 64).rank_label
        'rank 0 (x 64)'
        """
        return f"rank {self.rank} (x {self.copies})" if self.copies > 1 else f"rank {self.rank}"

    @property
    def family_label(self) -> str:
        return short(self.family)

    @property
    def label(self) -> str:
        return f"{self.rank_label} {self.family_label}"

    @property
    def tall(self) -> bool:
        """Whether it computes, or may: a stream of a profiler trace."""
        return self.family == COMPUTE or self.family.startswith(STREAM)


@dataclass(frozen=True)
class Boxes:
    """Boxes ordered by row and time; ``row`` and ``kind`` index ``Chart.rows`` and ``Chart.kinds``, times are in ps.

    ``shade`` is 1 where the box belongs to every other chunk (or layer) of its rank; ``micro_batch`` is -1 where there is none.
    """

    row: np.ndarray
    kind: np.ndarray
    shade: np.ndarray
    micro_batch: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: np.ndarray) -> Boxes:
        """The boxes that a mask or an index array picks."""
        return Boxes(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Chart:
    """Rows from top to bottom, the boxes in them, the window, and how many of the ranks are shown.

    ``step_end_ps`` is the end of the last op of any rank, shown or not. ``shaded_by`` says what the two shades of a kind tell
    apart: "chunk", "layer", or "" where there is only one shade.
    """

    rows: tuple[Row, ...]
    kinds: tuple[str, ...]
    boxes: Boxes
    begin_ps: int
    end_ps: int
    step_end_ps: int
    shown_ranks: tuple[int, ...]
    present_ranks: int
    shaded_by: str


def layout(
    ops: pd.DataFrame,
    *,
    ranks: Sequence[int] | None = None,
    begin_ps: int | None = None,
    end_ps: int | None = None,
    copies: Mapping[int, int] | None = None,
) -> Chart:
    """Rows and boxes of ``ops`` in the window from ``begin_ps`` to ``end_ps`` (the whole step where None).

    ``copies``: by rank how many ranks of the job it stands for, one where it says nothing.
    InputError for a trace in which nothing takes time, a rank that is not in the trace, a window without duration or outside the
    step, and as for :func:`with_places`.
    """
    if not len(ops):
        raise InputError("the trace holds no ops, there is nothing to draw")
    ops = with_places(ops)
    first_ps, step_end_ps = _span(ops)
    begin_ps = first_ps if begin_ps is None else begin_ps
    end_ps = step_end_ps if end_ps is None else end_ps
    _check_window(begin_ps, end_ps, first_ps, step_end_ps)
    present = np.unique(ops["rank"].to_numpy())
    shown = _choose_ranks(present, ranks)
    start, end = ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy()
    ops = ops[(end > start) & np.isin(ops["rank"].to_numpy(), shown)]
    families, family = _family_codes(ops, merged=len(shown) > MERGE_ABOVE)
    rows, row = _rows(shown, ops["rank"].to_numpy(), families, family, copies or {})
    kinds, boxes, shaded_by = _boxes(ops, row)
    inside = (boxes.start_ps < end_ps) & (boxes.end_ps > begin_ps)
    return Chart(
        rows, kinds, boxes.take(inside), begin_ps, end_ps, step_end_ps, tuple(shown.tolist()), len(present), shaded_by
    )


def with_places(ops: pd.DataFrame) -> pd.DataFrame:
    """The table with stage, layer and micro_batch, -1 where it has none; InputError where these, a rank or a time is no whole number.

    >>> with_places(pd.DataFrame({"rank": [0], "start_ps": [0], "end_ps": [5], "stage": [2]}))[["stage", "layer"]].values.tolist()
    [[2, -1]]
    """
    return ops.assign(**{name: whole_numbers(ops[name], f"ops: {name}") if name in ops else -1 for name in _WHOLE})


def row_of_op(ops: pd.DataFrame, chart: Chart) -> np.ndarray:
    """For each op its position in ``chart.rows``, -1 where it has no row there.

    >>> ops = pd.DataFrame({"rank": [0, 1, 0], "stream": ["send:1", "compute", "compute"], "kind": "forward", "stage": 0, "layer": 0,
    ...                     "micro_batch": 0, "start_ps": 0, "end_ps": 5})
    >>> row_of_op(ops, layout(ops, ranks=[0])).tolist()
    [1, -1, 0]
    """
    families, family = _family_codes(ops, merged=len(chart.shown_ranks) > MERGE_ABOVE)
    known = {(row.rank, row.family): place for place, row in enumerate(chart.rows)}
    rank, ranks = pd.factorize(ops["rank"])
    return np.array([[known.get((one, name), -1) for name in families] for one in ranks.tolist()], dtype=np.int64)[rank, family]


def _span(ops: pd.DataFrame) -> tuple[int, int]:
    first, last = int(ops["start_ps"].min()), int(ops["end_ps"].max())
    if first == last:
        raise InputError("no op of the trace takes time, there is nothing to draw")
    return first, last


def _check_window(begin_ps: int, end_ps: int, first_ps: int, last_ps: int) -> None:
    window = f"the window from {begin_ps / 1e12:.9g} s to {end_ps / 1e12:.9g} s"
    if begin_ps >= end_ps:
        raise InputError(f"{window} is empty: its end must lie after its begin")
    if end_ps <= first_ps or begin_ps >= last_ps:
        raise InputError(f"{window} is empty: the trace goes from {first_ps / 1e12:.9g} s to {last_ps / 1e12:.9g} s")


def _choose_ranks(present: np.ndarray, ranks: Sequence[int] | None) -> np.ndarray:
    """The ranks asked for; otherwise all, or an even sample with the first and the last."""
    if ranks is not None:
        chosen = np.unique(np.asarray(ranks, dtype=np.int64))
        missing = np.setdiff1d(chosen, present)
        if len(missing) or not len(chosen):
            asked = f"rank {missing[0]} is not in the trace" if len(missing) else "no rank to show"
            raise InputError(f"{asked}; present: {_rank_list(present)}")
        return chosen
    if len(present) <= MAX_RANKS:
        return present
    return present[np.linspace(0, len(present) - 1, MAX_RANKS).round().astype(np.int64)]


def _rank_list(present: np.ndarray) -> str:
    """``0-7, 16, 24``, cut off after a dozen ranges."""
    runs = np.split(present, np.flatnonzero(np.diff(present) != 1) + 1)
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(texts[:12]) + (", ..." if len(texts) > 12 else "")


def _codes(column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Integer codes and the distinct values, in order of name, so that nothing depends on the order of the table."""
    codes, values = pd.factorize(column, sort=True)
    return codes.astype(np.int64), [str(value) for value in values]


def _family_codes(ops: pd.DataFrame, merged: bool) -> tuple[list[str], np.ndarray]:
    """Names of the families from top to bottom, and for each op the index of its own; ``merged`` leaves compute and communication."""
    codes, names = _codes(ops["kind"] if merged else ops["stream"])
    if merged:
        family_of = [COMPUTE if name in (*COMPUTE_KINDS, "kernel") else COMMUNICATION for name in names]
    else:
        family_of = [f"{STREAM} {name}" if _NUMBER.fullmatch(name) else name.split(":", 1)[0] for name in names]
    order = {name: place for place, name in enumerate(_FAMILIES)}
    families = sorted(set(family_of), key=lambda name: (order.get(name, len(order)), *_natural(name)))
    return families, np.array([families.index(name) for name in family_of], dtype=np.int64)[codes]


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """
    >>> sorted(["stream 20", "stream 7", "stream 1:7"], key=_natural)
    ['stream 1:7', 'stream 7', 'stream 20']
    """
    numbers = [digits.lstrip("0") for digits in re.findall(r"\d+", name)]
    return [(len(digits), digits) for digits in numbers], name  # in order of size, however long


def _rows(
    shown: np.ndarray, rank: np.ndarray, families: list[str], family: np.ndarray, copies: Mapping[int, int]
) -> tuple[tuple[Row, ...], np.ndarray]:
    """The rows that hold an op, ranks from top to bottom, families within a rank; and the row of each op.

    A rank in which nothing takes time keeps its compute row: that it idles is worth seeing.
    """
    stands_for = [int(copies.get(one, 1)) for one in shown.tolist()]
    width = len(families) + 1
    place = np.searchsorted(shown, rank)
    key = place * width + family
    idle = np.setdiff1d(np.arange(len(shown)), place) * width + len(families)
    used = np.union1d(key, idle)
    names = [*families, COMPUTE]
    rows = tuple(Row(int(shown[code // width]), names[code % width], stands_for[code // width]) for code in used.tolist())
    return rows, np.searchsorted(used, key)


def _boxes(ops: pd.DataFrame, row: np.ndarray) -> tuple[tuple[str, ...], Boxes, str]:
    """Ops as boxes: sorted by row and time, shaded by chunk or layer, touching compute ops of one piece of work made one box."""
    kind, kinds = _codes(ops["kind"])
    order = np.lexsort((ops["end_ps"].to_numpy(), ops["start_ps"].to_numpy(), row))
    stage, layer = ops["stage"].to_numpy()[order], ops["layer"].to_numpy()[order]
    row, kind, micro_batch = row[order], kind[order], ops["micro_batch"].to_numpy()[order]
    start, end = ops["start_ps"].to_numpy()[order], ops["end_ps"].to_numpy()[order]
    shaded = np.isin(kind, [code for code, name in enumerate(kinds) if name in SHADED_KINDS]) & (stage >= 0)
    layered = _layered(row[shaded], layer[shaded], micro_batch[shaded], int(row.max(initial=-1)) + 1)[row]
    part = np.where(layered, layer, stage)
    shade = np.zeros(len(row), dtype=np.int64)
    shade[shaded] = _parity(row[shaded], part[shaded])
    by_chunk = bool((shade[shaded] == _parity(row[shaded], stage[shaded])).all())
    shaded_by = "" if not shade.any() else "chunk" if by_chunk else "layer"

    computes = np.isin(kind, [code for code, name in enumerate(kinds) if name in COMPUTE_KINDS])
    same = np.ones(max(len(row) - 1, 0), dtype=bool)
    for column in (row, kind, stage, part, micro_batch):
        same &= column[1:] == column[:-1]
    joined = same & computes[1:] & (start[1:] == end[:-1])
    begins = np.flatnonzero(np.append(True, ~joined)) if len(row) else np.zeros(0, dtype=np.int64)
    ends = np.append(begins[1:], len(row)) - 1
    boxes = Boxes(row[begins], kind[begins], shade[begins], micro_batch[begins], start[begins], end[ends[: len(begins)]])
    return tuple(kinds), boxes, shaded_by


def _layered(row: np.ndarray, layer: np.ndarray, micro_batch: np.ndarray, rows: int) -> np.ndarray:
    """For each row whether it finishes a layer for all micro-batches before it turns to the next one.

    Told from the order alone: the layer then changes less often than the micro-batch.
    """
    together = row[1:] == row[:-1]
    changes = [
        np.bincount(row[1:][together & (column[1:] != column[:-1])], minlength=rows) for column in (layer, micro_batch)
    ]
    return changes[0] < changes[1]


def _parity(row: np.ndarray, part: np.ndarray) -> np.ndarray:
    """0, 1, 0, 1, ... for the parts (chunks, layers) of each row in ascending order."""
    if not len(row):
        return np.zeros(0, dtype=np.int64)
    key = row * (int(part.max()) + 2) + part + 1  # parts begin at -1
    distinct, place = np.unique(key, return_inverse=True)
    row_of = distinct // (int(part.max()) + 2)
    first = np.searchsorted(row_of, row_of)
    return ((np.arange(len(distinct)) - first) % 2)[place]
