"""A cluster as plain data and as tables for the terminal.

>>> from clustersim.cluster.load import check_cluster
>>> description = describe(check_cluster("dgx-a100"))
>>> description["gpus"], description["nvlink_per_gpu_bytes_s"]
(16, 300000000000)
>>> [(path["where"], path["hops"], path["bottleneck_bytes_s"]) for path in description["paths"]]
[('same node', 2, 240000000000), ('other node', 6, 24000000000)]
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from clustersim import units
from clustersim.cluster.spec import NETWORK, Cluster

if TYPE_CHECKING:
    from rich.table import Table


def describe(cluster: Cluster) -> dict[str, Any]:
    """Counts, rates and typical paths, ready for JSON; every key with a quantity carries its unit.

    ``nvlink_per_gpu_bytes_s`` is nominal, one direction, of the GPU that has least.
    """
    devices = Counter({"gpu": cluster.gpus})
    for _, kind in cluster.devices:
        devices[kind] += cluster.nodes
    if any(link.target == NETWORK for link in cluster.node_links):
        devices["network_switch"] = 1
    nvlink: Counter[str] = Counter()
    for link in cluster.node_links:
        if link.kind == "nvlink" and link.source.startswith("gpu"):
            nvlink[link.source] += link.bandwidth_bytes_s
    gpu = cluster.gpu
    return {
        "name": cluster.name,
        "description": cluster.description,
        "ideal": cluster.ideal,
        "link_delay_s": cluster.link_delay_ps / units.PS_PER_S,
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "gpus": cluster.gpus,
        "gpu": {
            "name": gpu.name,
            "memory_bytes": gpu.memory_bytes,
            "memory_bandwidth_bytes_s": gpu.memory_bandwidth_bytes_s,
            "peak_flop_s": dict(gpu.peak_flop_s),
            "efficiency": gpu.efficiency,
        },
        "nvlink_per_gpu_bytes_s": min(nvlink.values()) if len(nvlink) == cluster.gpus_per_node else 0,
        "devices": dict(devices),
        "links": _link_rows(cluster),
        "paths": _paths(cluster),
    }


def tables(cluster: Cluster) -> list[Table]:
    """The description as rich tables: the cluster, its links, its typical paths; no empty table."""
    from rich.table import Table

    data = describe(cluster)
    gpu = data["gpu"]
    summary = Table("what", "value", title=cluster.name, caption=cluster.description or None)
    rows = [
        ("nodes x GPUs", f"{data['nodes']} x {data['gpus_per_node']} = {data['gpus']}"),
        ("GPU", gpu["name"]),
        ("memory", units.size_text(gpu["memory_bytes"])),
        ("memory bandwidth", units.bandwidth_text(gpu["memory_bandwidth_bytes_s"])),
        *((f"peak {precision}", units.flops_text(peak)) for precision, peak in gpu["peak_flop_s"].items()),
        ("efficiency of matrix products", f"{gpu['efficiency']:.3g} of the peak"),
        ("NVLink per GPU, each direction", units.bandwidth_text(data["nvlink_per_gpu_bytes_s"])),
        ("devices", ", ".join(f"{count} {kind}" for kind, count in data["devices"].items())),
    ]
    if data["ideal"]:
        rows.append(("links", f"infinitely fast, one-way delay {units.time_text(data['link_delay_s'])}"))
    for row in rows:
        summary.add_row(*row)
    result = [summary]
    if data["links"]:
        links = Table("kind", "links", "bandwidth", "efficiency", "capacity", "latency", title="Links, each direction")
        for row in data["links"]:
            links.add_row(
                row["kind"],
                str(row["count"]),
                units.bandwidth_text(row["bandwidth_bytes_s"]),
                f"{row['efficiency']:.3g}",
                units.bandwidth_text(row["capacity_bytes_s"]),
                units.time_text(row["latency_s"]),
            )
        result.append(links)
    if data["paths"]:
        paths = Table("where", "from", "to", "hops", "over", "bottleneck", "latency", title="Typical paths")
        for row in data["paths"]:
            bottleneck = f"{units.bandwidth_text(row['bottleneck_bytes_s'])} ({row['bottleneck_kind']})"
            ends = (row["where"], row["source"], row["target"], str(row["hops"]), ", ".join(row["kinds"]))
            paths.add_row(*ends, bottleneck, units.time_text(row["latency_s"]))
        result.append(paths)
    return result


def _link_rows(cluster: Cluster) -> list[dict[str, Any]]:
    # Bonded NVLinks of a mesh make several rates of one kind.
    counts = Counter(
        (link.kind, link.bandwidth_bytes_s, link.capacity_bytes_s, link.latency_ps, link.efficiency)
        for link in cluster.node_links
    )
    return [
        {
            "kind": kind,
            "count": count * cluster.nodes,
            "bandwidth_bytes_s": bandwidth,
            "efficiency": efficiency,
            "capacity_bytes_s": capacity,
            "latency_s": latency_ps / units.PS_PER_S,
        }
        for (kind, bandwidth, capacity, latency_ps, efficiency), count in counts.items()
    ]


def _paths(cluster: Cluster) -> list[dict[str, Any]]:
    """From GPU 0 to one GPU of each kind of path within its node, and to the first GPU of another node."""
    if cluster.ideal:
        return []
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for other in range(1, cluster.gpus_per_node):
        row = _path(cluster, "same node", 0, other)
        rows.setdefault((row["hops"], *row["kinds"], row["bottleneck_bytes_s"]), row)
    if cluster.nodes > 1:
        rows["other node",] = _path(cluster, "other node", 0, cluster.gpus_per_node)
    return list(rows.values())


def _path(cluster: Cluster, where: str, a: int, b: int) -> dict[str, Any]:
    links = [cluster.link(link_id) for link_id, _ in cluster.route(a, b).links]
    slowest = min(links, key=lambda link: link.capacity_bytes_s)
    return {
        "where": where,
        "source": cluster.device_of(a),
        "target": cluster.device_of(b),
        "hops": len(links),
        "kinds": list(dict.fromkeys(link.kind for link in links)),
        "links": [link.name for link in links],
        "bottleneck_bytes_s": slowest.capacity_bytes_s,
        "bottleneck_kind": slowest.kind,
        "latency_s": sum(link.latency_ps for link in links) / units.PS_PER_S,
    }
