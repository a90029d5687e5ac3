"""Traces to export: one made by hand with every kind of op, and simulated ones."""

import numpy as np
import pandas as pd

from clustersim.exporters.selection import complete
from clustersim.program.kinds import KINDS
from clustersim.simulation import manifest
from clustersim.trace.files import RunData
from clustersim.trace.trace import Trace
from tests.helpers import simulated

PIPELINE = """
model: {layers: 8, hidden: 64, heads: 4}
cluster: pcie-ethernet
parallel: {data: 2, pipeline: 2, tensor: 2}
strategy: {name: mpp}
batch: {global: 16, micro: 1, sequence: 128}
"""
SHARDED = PIPELINE.replace("{name: mpp}", "{name: mpp, partition: parameters, chunks: 2}")
DELAYED = """
model: {layers: 8, hidden: 64, heads: 4}
cluster: ideal
parallel: {pipeline: 4}
strategy: {name: gpipe}
batch: {global: 8, micro: 1, sequence: 128}
cost: {forward: 1 s, backward: 3 s}
link_delay: 5 s
"""
JOBS = {"pipeline": PIPELINE, "sharded": SHARDED, "delayed": DELAYED}


def trace_of(text: str, fold: bool = False) -> Trace:
    return complete(simulated(text, fold).trace)


def run_of(text: str, fold: bool = False) -> RunData:
    """All that its run folder would hold."""
    run = simulated(text, fold)
    return RunData(complete(run.trace), run.links, summary=run.summary, manifest=manifest(run.experiment))


def every_kind(ranks: int = 2, rounds: int = 3) -> Trace:
    """Each kind of op on each rank, compute on one stream, the rest beside it; a send of rank 0 is received by rank 1, and so on round."""
    rows = []
    for rank in range(ranks):
        for turn in range(rounds):
            for code, kind in enumerate(KINDS):
                computes = code < 6
                start = (turn * len(KINDS) + code) * 1_000_003 + (0 if computes else 499_500)
                peer = {"send": (rank + 1) % ranks, "recv": (rank - 1) % ranks}.get(kind, -1)
                group = "" if computes or kind in ("offload", "fetch") else f"0-{ranks - 1}"
                name = f'{kind} "{turn}"\n\u00e9'
                stream = "compute" if computes else kind
                rows.append((rank, stream, kind, name, turn, start, start + 900_001, 0 if computes else 4096, group, peer))
    columns = ["rank", "stream", "kind", "name", "layer", "start_ps", "end_ps", "bytes", "group", "peer"]
    ops = pd.DataFrame(rows, columns=columns).assign(op=np.arange(len(rows)), flops=1e9)
    dependencies = pd.DataFrame({"op": [1, 2], "on": [0, 0]})
    links = pd.DataFrame({"link": ["a>b", "a>b"], "start_ps": [0, 2_000_000], "end_ps": [1_000_000, 3_000_000], "rate_bytes_s": [1e9, 2e9]})
    changes = [(0, 0, 100, "weights"), (0, 1_000_000, 50, "activations"), (0, 2_000_000, -50, "activations"), (1, 0, 70, "weights")]
    memory = pd.DataFrame(changes, columns=["rank", "time_ps", "bytes", "what"])
    return complete(Trace(ops, dependencies, links, memory))
