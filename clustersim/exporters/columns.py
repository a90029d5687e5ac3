"""The columns of the table of ops as arguments of events, in exports that :mod:`clustersim.importers.exported` reads back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from clustersim.exporters.json_text import nanoseconds, texts
from clustersim.exporters.selection import KNOWN

_NUMBERS = (("stage", -1), ("layer", -1), ("micro_batch", -1), ("bytes", 0), ("peer", -1), ("wait_ps", 0))


@dataclass(frozen=True)
class Needs:
    """What ops wait for: ``op``, ascending, and ``on``."""

    op: np.ndarray
    on: np.ndarray


def needs(dependencies: pd.DataFrame) -> Needs:
    op, on = dependencies["op"].to_numpy(), dependencies["on"].to_numpy()
    order = np.argsort(op, kind="stable")
    return Needs(op[order], on[order])


def arguments(ops: pd.DataFrame, before: Needs) -> list[str]:
    """For each op its columns that its event does not have elsewhere, and ``on``, the numbers of the ops that it waited for.

    What is absent (-1, 0 or an empty text) is left out; all begin with the kind.
    """
    kinds, numbers = texts(ops["kind"]), ops["op"].tolist()
    found = [f'"kind":{kind},"op":{number}' for kind, number in zip(kinds, numbers, strict=True)]
    for name, absent in _NUMBERS:
        values = ops[name].to_numpy()
        for row in np.flatnonzero(values > absent).tolist():
            found[row] += f',"{name}":{int(values[row])}'
    groups, group = texts(ops["group"]), ops["group"].astype(str).to_numpy()
    for row in np.flatnonzero(group != "").tolist():
        found[row] += f',"group":{groups[row]}'
    unknown = ~ops[KNOWN].to_numpy() if KNOWN in ops else np.zeros(len(ops), dtype=bool)
    for row in np.flatnonzero(unknown).tolist():
        found[row] += f',"{KNOWN}":false'
    flops = ops["flops"].to_numpy()
    for row in np.flatnonzero(flops > 0).tolist():
        found[row] += f',"flops":{float(flops[row])!r}'
    first, last = (np.searchsorted(before.op, ops["op"].to_numpy(), side=side) for side in ("left", "right"))
    for row in np.flatnonzero(last > first).tolist():
        found[row] += f',"on":{before.on[first[row] : last[row]].tolist()}'.replace(" ", "")
    return found


def rests(*times_ps: np.ndarray) -> list[str]:
    """A field of the event, beginning with a comma: the picoseconds that three decimals of a microsecond do not hold. None for zeros.

    >>> rests(np.array([1499, 2000]), np.array([3501, 5000]))
    [',"rest_ps":[499,-499]', '']
    """
    left = np.stack([times - nanoseconds(times) * 1000 for times in times_ps], axis=1)
    known = np.any(left, axis=1).tolist()
    return [f',"rest_ps":{one}'.replace(" ", "") if there else "" for one, there in zip(left.tolist(), known, strict=True)]
