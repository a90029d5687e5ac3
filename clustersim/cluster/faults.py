"""Links by name, and a cluster without some of its links."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from clustersim.cluster.spec import Cluster

MOST_LINKS = 50_000
"""Of a cluster that loses links: ways around them are searched among all."""


def link_number(cluster: Cluster, name: str) -> int | None:
    """The id of the link with this name, as traces and ``topology show`` give it; None when there is none.

    >>> from clustersim.cluster.load import check_cluster
    >>> cluster = check_cluster("paper-a100")
    >>> cluster.link(link_number(cluster, "node0/nic3>network")).name, link_number(cluster, "node9/nic3>network")
    ('node0/nic3>network', None)
    """
    per_copy = len(cluster.node_links)
    first = cluster.link_count - per_copy * cluster.copies
    numbers = range(cluster.link_count)
    copy = re.search(r"node([0-9]{1,9})/", name)
    if not cluster.whole and copy is not None:
        if int(copy.group(1)) >= cluster.copies:
            return None
        first += int(copy.group(1)) * per_copy
        numbers = range(first, first + per_copy)
    elif not cluster.whole:
        numbers = range(first)
    return next((number for number in numbers if cluster.link(number).name == name), None)


def without_links(cluster: Cluster, failed: Collection[int]) -> Cluster:
    """The cluster when these links have failed: what went over them takes the shortest ways that are left, all else its own.

    ValueError where there are more than ``MOST_LINKS`` links.

    >>> from clustersim.cluster.load import check_cluster
    >>> cluster = check_cluster("dgx-a100")
    >>> cluster = without_links(cluster, [link_number(cluster, "node0/nic3>network")])
    >>> [cluster.link(link).source for link, _ in cluster.route(3, 8).links]
    ['node0/gpu3', 'node0/pcie1', 'node0/nic2', 'network', 'network', 'node1/nic0', 'node1/nic1', 'node1/pcie0']
    """
    if cluster.link_count > MOST_LINKS:
        has = f"{cluster.name} of {cluster.nodes:,} nodes has {cluster.link_count:,} links"
        raise ValueError(f"{has}; allowed: at most {MOST_LINKS:,} where links fail")
    return replace(cluster, failed=frozenset(failed))
