"""The tables of this folder: each function simulates what it needs and returns its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd
from closed_form import shortest, step_s
from configurations import CALIBRATED, NETWORKS, PAPER, PEAK, Configuration, base, simulated

from clustersim.experiment import parse
from clustersim.simulation import simulate
from clustersim.sweeps.points import resolved
from clustersim.sweeps.run import Workers

SIZES = (32, 64, 96, 128, 160, 192, 224, 256, 288, 320)
NODES = (4, 8, 16, 20, 32, 40, 64)
PARTITIONS = ("none", "optimizer", "gradients", "parameters")
OFFLOADS = ("none", "activations", "all")
METHODS = ("baseline", "improved")


def comparison(pool: Workers) -> pd.DataFrame:
    """Baseline against improved with each combination of data, pipeline and tensor parallelism, at both costs.

    Without a pipeline the baseline has its sequences in one micro-batch of 5, so that the gathers hide as they do behind 5 micro-batches
    in layered order; unpartitioned it could not exist. Without tensor parallelism replicas fill nodes: 480 and 16 for 483 and 14.
    """
    baseline, improved = PAPER
    without_pipeline = replace(improved, method="baseline", pipeline=1, micro=5, micro_batches=1)
    pairs = {
        "data": (replace(without_pipeline, data=480, tensor=1), replace(improved, data=480, pipeline=1, tensor=1)),
        "data + pipeline": (replace(baseline, data=16, tensor=1, micro_batches=151), replace(improved, data=480, tensor=1)),
        "data + tensor": (without_pipeline, replace(improved, pipeline=1)),
        "3d": PAPER,
    }
    asked = [(name, replace(one, cost=cost)) for cost in (PEAK, CALIBRATED) for name, pair in pairs.items() for one in pair]
    return _table(asked, pool, "dimensions")


def sizes(pool: Workers, xs: Iterable[int] = SIZES) -> pd.DataFrame:
    """The shortest training of X_x with either method."""
    return _shortest({f"X_{x}": {"x": x} for x in xs}, pool)


def networks(pool: Workers) -> pd.DataFrame:
    """The two of the paper as they are on each network, and the shortest training of X_160 there."""
    fixed = [("as on InfiniBand", replace(one, network=network)) for network in NETWORKS for one in PAPER]
    best = _shortest({network: {"network": network} for network in NETWORKS}, pool).assign(case="shortest")
    return pd.concat([_table(fixed, pool, "case"), best], ignore_index=True)


def nodes(pool: Workers) -> pd.DataFrame:
    """The shortest training of X_160 with so many GPUs a node, each with its adapter; tensor groups stay inside and divide the 80 heads."""
    return _shortest({f"{node} GPUs": {"node": node} for node in NODES}, pool)


def memory(pool: Workers) -> pd.DataFrame:
    """The two of the paper with every partition and, of the improved, every offload."""
    baseline, improved = PAPER
    asked = [("baseline", replace(baseline, partition=p, offload=o)) for p, o in (("none", "none"), ("optimizer", "none"), ("none", "all"))]
    asked += [("improved", replace(improved, partition=p, offload=o)) for p in PARTITIONS for o in OFFLOADS]
    return _table(asked, pool, "case")


def intensity() -> pd.DataFrame:
    """FLOP that a GPU computes for a byte that it sends or receives, counted from simulated ops and by the paper's forms.

    Counted are all ranks of X_160 on 483 x 5 x 16 GPUs with 5 micro-batches, in a pipeline the interior ones. The attention's core is left
    out of the FLOP, as there; a ring of n sends (n-1)/n of a payload, which the forms round to 1. A gradient reduction is held against the
    backward that it hides under: of the last micro-batch in standard order, of all in layered order.
    """
    h, s, m, x, t = 25600, 2560, 5, 160, 16
    standard = {"reduce": 3 / 4 * s, "state": 2 / 3 * s, "pipeline": 12 * h * x / 5, "tensor": 2 * h / (t - 1)}
    layered = {"reduce": 3 / 4 * m * s, "state": 2 / 3 * m * s, "pipeline": 12 * h, "tensor": 2 * h / (t - 1)}
    forms = {"baseline": standard, "improved": layered}
    rows = []
    for method in METHODS:
        whole, parted = (counted(replace(PAPER[1], method=method, partition=partition)) for partition in ("none", "parameters"))
        last = m if method == "baseline" else 1
        found = {
            "reduce": whole["backward_flop"] / last / whole["data_bytes"],
            "state": parted["flop"] / parted["data_bytes"],
            "pipeline": whole["flop"] / whole["pipeline_bytes"],
            "tensor": whole["flop"] / whole["tensor_bytes"],
        }
        rows += [{"method": method, "traffic": kind, "form": forms[method][kind], "counted": found[kind]} for kind in found]
    return pd.DataFrame(rows).assign(error=lambda table: table["counted"] / table["form"] - 1)


def counted(one: Configuration) -> Mapping[str, float]:
    """Of an interior rank in a step: ``flop`` and ``backward_flop`` (recomputation included), bytes sent and received by kind of traffic.

    Every received pipeline message is gathered from its parts inside the node, which is no part of the paper's tensor-parallel traffic.
    """
    experiment = parse(resolved(base(), one.assignments()), base().near)
    ops = simulate(experiment).trace.ops
    rank = sorted(ops["rank"].unique())[one.pipeline // 2]
    own = ops[ops["rank"] == rank]
    core = own["name"].astype(str).str.contains("attention") & (own["flops"] > 0)
    model, tokens = one.model, one.micro * one.model.sequence
    passes = {"forward": 1, "recompute": 1, "backward": 2}
    core_flop = own["kind"].map(passes).fillna(0).astype(float) * core * 4 * tokens * model.sequence * model.hidden / one.tensor
    flop = (own["flops"] - core_flop).groupby(own["kind"].astype(str)).sum()
    sent = own["bytes"].groupby(own["kind"].astype(str)).sum()
    boundary = 2 * tokens * model.hidden * (one.tensor - 1) / one.tensor
    received = int((own["kind"] == "recv").sum())
    return {
        "flop": flop.sum(),
        "backward_flop": flop["recompute"] + flop["backward"],
        "data_bytes": 2 * (sent.get("reduce", 0) + sent.get("gather", 0)),
        "pipeline_bytes": sent["send"] + sent["recv"],
        "tensor_bytes": 2 * (sent["tensor"] - received * boundary),
    }


def _shortest(cases: Mapping[str, Mapping], pool: Workers) -> pd.DataFrame:
    """For each case and method the shortest of the candidates of the closed forms that fit, as simulated."""
    asked = [(name, one) for name, of in cases.items() for method in METHODS for one in shortest(method, **{"x": 160, **of})]
    table = _table(asked, pool, "case").assign(closed_form_days=[one.days(step_s(one)) for _, one in asked])
    table = table[table["fits"]].sort_values("days", kind="stable")
    best = table.groupby(["case", "method"], sort=False).head(1).sort_index().reset_index(drop=True)
    missing = {(name, method) for name in cases for method in METHODS} - set(zip(best["case"], best["method"], strict=True))
    if missing:
        raise RuntimeError(f"none of the candidates fits in memory: {sorted(missing)}")
    return best


def _table(asked: list[tuple[str, Configuration]], pool: Workers, label: str) -> pd.DataFrame:
    table = pd.DataFrame(simulated((one for _, one in asked), pool))
    table.insert(0, label, [name for name, _ in asked])
    return table
