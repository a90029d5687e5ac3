"""Which link or parameter matters most: each halved and doubled by itself.

Compared is the GPU time per token (step time x GPUs / tokens), so that a larger batch or more GPUs count for what they bring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clustersim.cluster.spec import LINK_KINDS, Cluster
from clustersim.errors import InputError
from clustersim.experiment import Experiment
from clustersim.sweeps.knee import Evaluate
from clustersim.sweeps.vary import Value
from clustersim.units import PS_PER_S, bandwidth_text, time_text

_MOST_TRUNKS = 1000  # of many links between switches the first stand for all


@dataclass(frozen=True)
class Bar:
    """One parameter: ``base``, ``halved`` and ``doubled`` GPU time per token, None where it cannot be; ``reasons`` say why."""

    path: str
    base: Value
    gpu_s_per_token: float
    halved: float | None
    doubled: float | None
    reasons: tuple[str, ...]

    @property
    def swing(self) -> float:
        """The most by which either changes the base, as a part of it."""
        return max((abs(value / self.gpu_s_per_token - 1) for value in (self.halved, self.doubled) if value is not None), default=0.0)

    @property
    def base_text(self) -> str:
        text = {"bandwidth": bandwidth_text, "latency": time_text}.get(self.path.rpartition(".")[2])
        return self.base.text if text is None or self.base.number is None else text(self.base.number)

    def document(self) -> dict[str, Any]:
        return {
            "field": self.path, "value": self.base.plain, "gpu_s_per_token": self.gpu_s_per_token,
            "halved_gpu_s_per_token": self.halved, "doubled_gpu_s_per_token": self.doubled, "reasons": list(self.reasons),
        }  # fmt: skip


def parameters(experiment: Experiment) -> dict[str, tuple[Value | None, Value, Value]]:
    """By path the half (None where it is no whole number), the value itself, and the double.

    Bandwidth and latency of each kind of link that the cluster has, where all of its links have the same; degrees above one,
    the micro-batch and the batch.
    """
    found: dict[str, tuple[Value | None, Value, Value]] = {}
    for kind in LINK_KINDS:
        for key, unit, amounts in _rates(experiment.cluster, kind):
            if len(amounts) == 1 and (amount := amounts.pop()) > 0:
                half, own, double = (Value(f"{amount * times:.12g} {unit}", amount * times) for times in (0.5, 1, 2))
                found[f"{kind}.{key}"] = half, own, double
    grid = experiment.grid
    degrees = {f"parallel.{name}": getattr(grid, name) for name in ("data", "pipeline", "tensor", "context")}
    whole = {path: degree for path, degree in degrees.items() if degree > 1}
    whole |= {"batch.micro": experiment.micro_batch, "batch.global": experiment.global_batch}
    for path, number in whole.items():
        lower = None if number % 2 else Value(str(number // 2), number // 2)
        found[path] = (lower, Value(str(number), number), Value(str(number * 2), number * 2))
    return found


def tornado(experiment: Experiment, evaluate: Evaluate) -> list[Bar]:
    """A bar for each parameter, the one that matters most first. InputError when the experiment itself gives no time."""
    values = parameters(experiment)
    points = {
        (path, side): _point(path, value)
        for path, triple in values.items()
        for side, value in enumerate(triple)
        if side != 1 and value is not None
    }
    base, *rows = evaluate([{}, *points.values()])
    own = _gpu_s_per_token(base)
    if own is None:
        raise InputError(f"{experiment.document.source}: {base['reason']}")
    row_of = dict(zip(points, rows, strict=True))
    bars = []
    for path, (_, value, _) in values.items():
        pair = [row_of.get((path, side), {}) for side in (0, 2)]
        reasons = tuple(row["reason"] for row in pair if row.get("reason"))
        bars.append(Bar(path, value, own, _gpu_s_per_token(pair[0]), _gpu_s_per_token(pair[1]), reasons))
    return sorted(bars, key=lambda bar: -bar.swing)


def _point(path: str, value: Value) -> dict[str, Value]:
    """Other degrees need another number of nodes: as many as they take."""
    return {path: value, "nodes": Value("", None)} if path.startswith("parallel.") else {path: value}


def _gpu_s_per_token(row: dict[str, Any]) -> float | None:
    rate = row.get("tokens_per_s")
    return row["ranks"] / rate if rate else None


def _rates(cluster: Cluster, kind: str) -> Iterator[tuple[str, str, set[float]]]:
    links = [link for link in cluster.node_links if link.kind == kind]
    trunks = range(min(cluster.fabric.link_count, _MOST_TRUNKS)) if kind == "network" else ()
    yield "bandwidth", "B/s", {link.bandwidth_bytes_s for link in links}  # between switches it changes in proportion
    yield "latency", "s", {link.latency_ps / PS_PER_S for link in (*links, *map(cluster.link, trunks))}
