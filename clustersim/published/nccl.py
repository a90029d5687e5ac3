"""nccl-tests as others ran them, from 1 MB up, out of place: microseconds of a collective.

One node is what the clusters' protocols and NVLinks were fitted to; two nodes are the test. nccl-tests count the whole payload of a
gather and a reduce-scatter, as sizes here do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from clustersim.cluster.load import inline_topology, load_cluster
from clustersim.cluster.spec import Cluster
from clustersim.collectives.loads import alone_ps, fastest_algorithm
from clustersim.document import Document
from clustersim.published.case import CALIBRATION, DATA, TEST, Case, LeftOut, Row, rows, whole

_SOURCE = "nccl"
_LEAST_BYTES = 1_000_000
_OPS = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all",
    "broadcast": "broadcast",
}  # fmt: skip
# By the beginning of the curve's name.
_CLUSTERS: dict[str, str | dict[str, Any]] = {
    "A100-40G x8": "dgx-a100-40gb",
    "H100 1 node": "dgx-h100",
    "H100 2 nodes": "p5-h100-efa",
    # Two ports of 100 Gb/s RoCE a node, and not the four of the preset; `ib_write_bw` between these machines reached 92.40 Gb/s (the same
    # document, before NCCL ran).
    "DGX-1 V100 2 nodes": {
        "base": "dgx-1-v100", "node": {"nics": 2, "nic_of_gpu": [0, 0, 0, 0, 1, 1, 1, 1]}, "network": {"efficiency": 0.924},
    },
}  # fmt: skip


def curves() -> list[Case | LeftOut]:
    """A case for each size of a curve."""
    read = [row for row in rows("nccl_collective_curves.csv") if whole(row["size_bytes"]) >= _LEAST_BYTES]
    cases: list[Case | LeftOut] = []
    for row in read:
        if row["collective"] not in _OPS:
            continue

        def predicted(_: Any, row: Row = row) -> float:
            return _time_us(row)

        name = f"{row['curve_id']}, {whole(row['size_bytes']) / 1e6:.1f} MB"
        use = CALIBRATION if row["n_nodes"] == "1" else TEST
        cases.append(Case(_SOURCE, use, name, "collective time", "us", float(row["time_us_out_of_place"]), (), predicted))
    unknown = dict.fromkeys((row["curve_id"], row["collective"]) for row in read if row["collective"] not in _OPS)
    return cases + [LeftOut(_SOURCE, curve, f"no collective {op} is modelled: nothing in training uses it") for curve, op in unknown]


def _time_us(row: Row) -> float:
    (start,) = (start for start in _CLUSTERS if row["curve_id"].startswith(start))
    group, size = range(whole(row["n_gpus"])), whole(row["size_bytes"])
    cluster, op = _cluster(start, len(group)), _OPS[row["collective"]]
    return alone_ps(cluster, group, op, fastest_algorithm(cluster, group, op, size), size) / 1e6


@lru_cache
def _cluster(start: str, gpus: int) -> Cluster:
    given = _CLUSTERS[start]
    reference = given if isinstance(given, str) else inline_topology(Document({"cluster": given}, "published"), "cluster", DATA)
    return load_cluster(reference, gpus=gpus, nodes=None, overrides={}, near=DATA, place="published")
