"""A cluster as plain data and as tables for the terminal.

>>> from clustersim.cluster.load import check_cluster
>>> description = describe(check_cluster("dgx-a100"))
>>> description["gpus"], description["nvlink_per_gpu_bytes_s"]
(16, 300000000000)
>>> [(path["where"], path["hops"], path["bottleneck_bytes_s"]) for path in description["paths"]]
[('same node', 2, 235200000000), ('other node', 6, 24000000000)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clustersim import units
from clustersim.cluster.bisection import bisection
from clustersim.cluster.fabrics import NETWORK
from clustersim.cluster.links import Rate
from clustersim.cluster.spec import Cluster

if TYPE_CHECKING:
    from rich.table import Table


LEVELS = ("gpu", "nvswitch", "pcie_switch", "host", "nic", "network_switch", "router", "leaf", "spine", "core")
"""Kinds of devices, bottom up."""


def describe(cluster: Cluster) -> dict[str, Any]:
    """Counts, rates and typical paths, ready for JSON; every key with a quantity carries its unit.

    ``nvlink_per_gpu_bytes_s`` is nominal, one direction, of the GPU that has least.
    """
    devices = Counter({"gpu": cluster.gpus})
    for _, kind in cluster.devices:
        devices[kind] += cluster.copies
    if cluster.has_network:
        devices.update(cluster.fabric.kinds())
    gpus = set(cluster.gpu_names_of_copy)
    nvlink: Counter[str] = Counter()
    for link in cluster.node_links:
        if link.kind == "nvlink" and link.source in gpus:
            nvlink[link.source] += link.bandwidth_bytes_s
    gpu = cluster.gpu
    halves = bisection(cluster)
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
            "usable_memory_bytes": gpu.usable_memory_bytes,
            "memory_bandwidth_bytes_s": gpu.memory_bandwidth_bytes_s,
            "peak_flop_s": dict(gpu.peak_flop_s),
            "efficiency": gpu.efficiency,
        },
        "nvlink_per_gpu_bytes_s": min(nvlink.values()) if nvlink and len(nvlink) == len(gpus) else 0,
        "layout": None if cluster.ideal else "explicit" if cluster.whole else cluster.fabric.layout,
        "routing": cluster.routing,
        "bisection_bytes_s": halves.bytes_s,
        "bisection_method": halves.method,
        "devices": dict(devices),
        "links": _link_rows(cluster),
        "paths": _paths(cluster),
    }


def tables(cluster: Cluster, data: Mapping[str, Any] | None = None) -> list[Table]:
    """The description, made or at hand as ``data``, as rich tables: the cluster, its links, its typical paths; no empty table."""
    from rich.table import Table

    data = describe(cluster) if data is None else data
    gpu = data["gpu"]
    summary = Table("what", "value", title=cluster.name, caption=cluster.description or None)
    rows = [
        ("nodes x GPUs", f"{data['nodes']} x {data['gpus_per_node']} = {data['gpus']}"),
        ("GPU", gpu["name"]),
        ("memory", f"{units.size_text(gpu['memory_bytes'])}, usable {units.size_text(gpu['usable_memory_bytes'])}"),
        ("memory bandwidth", units.bandwidth_text(gpu["memory_bandwidth_bytes_s"])),
        *((f"peak {precision}", units.flops_text(peak)) for precision, peak in gpu["peak_flop_s"].items()),
        ("efficiency", "by shape, from its calibrations" if gpu["efficiency"] is None else f"{gpu['efficiency']:.3g} of the peak"),
        ("NVLink per GPU, each direction", units.bandwidth_text(data["nvlink_per_gpu_bytes_s"])),
        ("devices", ", ".join(f"{count} {kind}" for kind, count in data["devices"].items())),
    ]
    if not data["ideal"] and data["gpus"] > 1:
        bisection_bytes_s, text = data["bisection_bytes_s"], data["bisection_method"]
        if bisection_bytes_s is not None:
            text = f"{units.bandwidth_text(bisection_bytes_s)} ({text})"
        rows += [("network", f"{data['layout']}, {data['routing']}"), ("bisection bandwidth", text)]
    if data["ideal"]:
        rows.append(("links", f"infinitely fast, one-way delay {units.time_text(data['link_delay_s'])}"))
    for row in rows:
        summary.add_row(*row)
    result = [summary]
    if data["links"]:
        columns = ("kind", "between", "links", "bandwidth", "efficiency", "capacity", "in all", "latency")
        links = Table(*columns, title="Links, each direction")
        for row in data["links"]:
            links.add_row(
                row["kind"],
                row["between"],
                str(row["count"]),
                units.bandwidth_text(row["bandwidth_bytes_s"]),
                f"{row['efficiency']:.3g}",
                units.bandwidth_text(row["capacity_bytes_s"]),
                units.bandwidth_text(row["total_bytes_s"]),
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
    """Directed links that are alike; ``total_bytes_s`` is what all of them carry, both directions together, by two."""
    kind_of = {**dict.fromkeys(cluster.gpu_names_of_copy, "gpu"), **dict(cluster.devices)}
    if cluster.has_network:
        kind_of[NETWORK] = next(iter(cluster.fabric.kinds()))
    counts: Counter[tuple[str, Rate]] = Counter()
    for link in cluster.node_links:
        lower, upper = sorted((kind_of[link.source], kind_of[link.target]), key=LEVELS.index)
        counts[f"{lower} - {upper}", link.rate] += cluster.copies
    if cluster.has_network:
        for bundle in cluster.fabric.bundles():
            counts[f"{bundle.lower} - {bundle.upper}", bundle.rate] += bundle.count
    return [
        {
            "kind": rate.kind,
            "between": between,
            "count": count,
            "bandwidth_bytes_s": rate.bandwidth_bytes_s,
            "efficiency": rate.efficiency,
            "capacity_bytes_s": rate.capacity_bytes_s,
            "total_bytes_s": count * rate.capacity_bytes_s // 2,
            "latency_s": rate.latency_ps / units.PS_PER_S,
        }
        for (between, rate), count in counts.items()
    ]


def _paths(cluster: Cluster) -> list[dict[str, Any]]:
    """From GPU 0 to one GPU of each kind of path: within its node, then to the first GPU of other nodes, near to far."""
    if cluster.ideal:
        return []
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    size = cluster.gpus_per_node
    farther = [2**power for power in range(20) if 2**power < cluster.nodes]
    others = [node * size for node in [*farther, cluster.nodes - 1] if node]
    for other in [*range(1, size), *others]:
        row = _path(cluster, 0, other)
        rows.setdefault((row["where"], row["hops"], row["latency_s"], *row["kinds"], row["bottleneck_bytes_s"]), row)
    return list(rows.values())


def _path(cluster: Cluster, a: int, b: int) -> dict[str, Any]:
    """``bottleneck_bytes_s`` is what one flow reaches alone: of links that share it, the one that limits it."""
    route = cluster.route(a, b)
    links = [(cluster.link(link), share) for link, share in route.links]
    slowest, share = min(links, key=lambda link: link[0].capacity_bytes_s / link[1])
    return {
        "where": "same node" if a // cluster.gpus_per_node == b // cluster.gpus_per_node else "other node",
        "source": cluster.device_of(a),
        "target": cluster.device_of(b),
        "hops": round(sum(share for _, share in links)),
        "kinds": list(dict.fromkeys(link.kind for link, _ in links)),
        "links": [link.name for link, _ in links],
        "bottleneck_bytes_s": round(slowest.capacity_bytes_s / share),
        "bottleneck_kind": slowest.kind,
        "latency_s": route.latency_ps / units.PS_PER_S,
    }
