"""Blocks: links that come in equal sets, one set to each node or group of switches.

Within a block everything is alike but for its owner. So two groups of GPUs whose owners are arranged alike load links that are alike:
the same place in the set of the owner that takes the same part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clustersim.cluster.fabrics import Flat, Tiers
from clustersim.cluster.spec import Cluster


class Block(NamedTuple):
    """Links ``first`` + owner x ``size`` + place; ``owner`` of an array of GPUs."""

    first: int
    size: int
    owner: Callable[[np.ndarray], np.ndarray]


def blocks_of(cluster: Cluster) -> tuple[Block, ...] | None:
    """The blocks of a cluster in the order of their links, together all of them; None where routes depend on the numbers of GPUs.

    An ideal cluster has none, and all its GPUs are alike.

    >>> from clustersim.cluster.load import check_cluster
    >>> [(block.first, block.size) for block in blocks_of(check_cluster("paper-a100"))]
    [(0, 144)]
    """
    if cluster.ideal:
        return ()
    if cluster.whole or cluster.failed or cluster.routing == "ecmp" or not isinstance(cluster.fabric, Flat | Tiers):
        return None
    per_node = cluster.gpus_per_node
    fabric = _levels(cluster, cluster.fabric) if isinstance(cluster.fabric, Tiers) and cluster.has_network else []
    links = cluster.fabric.link_count if cluster.has_network else 0
    return (*fabric, Block(links, len(cluster.node_links), lambda gpus: gpus // per_node))


def _levels(cluster: Cluster, tiers: Tiers) -> list[Block]:
    nics, per_node = np.array(cluster.nic_of_gpu, dtype=np.int64), cluster.gpus_per_node
    if not len(nics):
        return []

    def leaf(gpus: np.ndarray) -> np.ndarray:
        node, nic = gpus // per_node, nics[gpus % per_node]
        return node // tiers.rails * tiers.nics + nic if tiers.rails else (node * tiers.nics + nic) // tiers.tiers[0].children

    def group(level: int) -> Callable[[np.ndarray], np.ndarray]:
        def owner(gpus: np.ndarray) -> np.ndarray:
            found = leaf(gpus)
            for tier in tiers.tiers[1 : level + 1]:
                found = found // tier.children if tier.children else np.zeros_like(found)
            return found

        return owner

    sizes = zip(tiers.first_link, tiers.first_link[1:], tiers.groups, strict=False)
    return [Block(first, (end - first) // groups, group(level)) for level, (first, end, groups) in enumerate(sizes)]
