import pickle
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim import presets
from clustersim.cluster import describe
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.cluster.spec import Cluster, Gpu, Link
from clustersim.errors import InputError

NAMES = presets.names("topologies")
REAL = [name for name in NAMES if name != "ideal"]
GPU = Gpu("test", {"fp16": 1e12}, 10**9, 10**9, 1.0)


def cluster_of(name, nodes, gpus=1, **options):
    return load_cluster(name, gpus=gpus, nodes=nodes, overrides={}, near=Path(), place="here", **options)


def names_of(cluster, a, b):
    return [cluster.link(link).name for link, _ in cluster.route(a, b).links]


def test_a_dgx_a100_pair_uses_two_nvlinks():
    assert names_of(cluster_of("dgx-a100", 1), 3, 6) == ["node0/gpu3>node0/nvswitch", "node0/nvswitch>node0/gpu6"]


def test_different_nodes_use_the_nics_of_both_gpus():
    assert names_of(cluster_of("dgx-a100", 3), 3, 16 + 6) == [
        "node0/gpu3>node0/pcie1",
        "node0/pcie1>node0/nic3",
        "node0/nic3>network",
        "network>node2/nic6",
        "node2/nic6>node2/pcie3",
        "node2/pcie3>node2/gpu6",
    ]


def test_two_gpus_of_a_dgx_2h_share_an_adapter():
    cluster = cluster_of("dgx-2h", 2)
    assert "node0/nic1>network" in names_of(cluster, 2, 16) and "node0/nic1>network" in names_of(cluster, 3, 16)


def test_the_two_directions_are_different_links():
    cluster = cluster_of("dgx-a100", 2)
    for a, b in ((0, 1), (0, 9)):
        there, back = ({link for link, _ in cluster.route(*ends).links} for ends in ((a, b), (b, a)))
        assert there.isdisjoint(back) and len(there) == len(back)


def test_capacities_are_bytes_per_direction():
    cluster = cluster_of("dgx-a100", 2)
    network = cluster.link(cluster.route(0, 8).links[2][0])
    assert (network.kind, network.bandwidth_bytes_s, network.capacity_bytes_s) == ("network", 25 * 10**9, 24 * 10**9)
    assert cluster.link(cluster.route(0, 1).links[0][0]).capacity_bytes_s == 235_200_000_000  # 0.784 of 300 GB/s
    paper = cluster_of("paper-a100", 2)
    assert paper.link(paper.route(0, 16).links[2][0]).capacity_bytes_s == 25 * 10**9


@pytest.mark.parametrize(
    "name, gpus_per_node, nvlink_per_gpu, network",
    [
        ("dgx-1-v100", 8, 150, 12.5),
        ("dgx-2h", 16, 150, 12.5),
        ("dgx-a100", 8, 300, 25),
        ("dgx-a100-40gb", 8, 300, 25),
        ("dgx-h100", 8, 450, 50),
        ("paper-a100", 16, 300, 25),
        ("pcie-ethernet", 4, 0, 3.125),
    ],
)
def test_the_machines_have_their_published_rates(name, gpus_per_node, nvlink_per_gpu, network):
    cluster = check_cluster(name)
    assert cluster.gpus_per_node == gpus_per_node
    for gpu in range(gpus_per_node):
        out = [link for link in cluster.node_links if link.source == f"gpu{gpu}" and link.kind == "nvlink"]
        assert sum(link.bandwidth_bytes_s for link in out) == nvlink_per_gpu * 10**9
    assert {link.bandwidth_bytes_s for link in cluster.node_links if link.kind == "network"} == {network * 10**9}


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-2h", "dgx-h100", "dgx-1-v100", "paper-a100"])
def test_the_network_is_the_bottleneck_between_nodes(name):
    cluster = check_cluster(name)
    links = [cluster.link(link) for link, _ in cluster.route(0, cluster.gpus_per_node).links]
    assert min(links, key=lambda link: link.capacity_bytes_s).kind == "network"


def test_dgx_1_gpus_without_a_common_nvlink_go_over_the_host():
    cluster = cluster_of("dgx-1-v100", 1)
    neighbours = {tuple(sorted((int(a[3:]), int(b[3:])))) for a, b in _nvlink_pairs(cluster)}
    assert len(neighbours) == 16
    for a in range(8):
        for b in range(a + 1, 8):
            kinds = [cluster.link(link).kind for link, _ in cluster.route(a, b).links]
            assert kinds == (["nvlink"] if (a, b) in neighbours else ["pcie"] * 4)
    assert names_of(cluster, 0, 5)[1:3] == ["node0/pcie0>node0/host", "node0/host>node0/pcie2"]


def _nvlink_pairs(cluster):
    return [(link.source, link.target) for link in cluster.node_links if link.kind == "nvlink"]


def test_a_slow_nvlink_is_still_taken_before_pcie():
    links = [
        *(Link("", a, b, "nvlink", 10**6, 0) for a, b in (("gpu0", "gpu1"), ("gpu1", "gpu0"))),
        *(Link("", a, b, "pcie", 10**10, 0) for g in ("gpu0", "gpu1") for a, b in ((g, "host"), ("host", g))),
    ]
    cluster = Cluster("slow", "", GPU, 2, 1, (("host", "host"),), tuple(links))
    assert [cluster.link(link).kind for link, _ in cluster.route(0, 1).links] == ["nvlink"]


def test_gpus_of_a_node_use_the_network_only_when_nothing_else_joins_them():
    ends = [(f"gpu{i}", f"nic{i}", "pcie") for i in (0, 1)] + [(f"nic{i}", "network", "network") for i in (0, 1)]
    links = [Link("", *pair, kind, 10**9, 0) for a, b, kind in ends for pair in ((a, b), (b, a))]
    cluster = Cluster("split", "", GPU, 2, 1, (("nic0", "nic"), ("nic1", "nic")), tuple(links), (0, 1))
    assert names_of(cluster, 0, 1) == [
        "node0/gpu0>node0/nic0",
        "node0/nic0>network",
        "network>node0/nic1",
        "node0/nic1>node0/gpu1",
    ]
    assert cluster.unreachable() is None


def test_an_unreachable_gpu_is_named():
    links = tuple(Link("", *pair, "nvlink", 10**9, 0) for pair in (("gpu0", "gpu1"), ("gpu1", "gpu0"), ("gpu1", "gpu2")))
    cluster = Cluster("broken", "", GPU, 3, 1, (), links)
    assert cluster.unreachable() == (0, 2)  # GPUs do not forward
    with pytest.raises(InputError, match="node0/gpu0 cannot reach node0/gpu2"):
        cluster.route(0, 2)


@pytest.mark.parametrize("name", REAL)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_the_graph_agrees_with_links_and_every_device_passes_on_what_it_gets(name, data):
    cluster = cluster_of(name, None if name == "explicit-example" else data.draw(st.integers(1, 3)))
    a, b = (data.draw(st.integers(0, cluster.gpus - 1)) for _ in range(2))
    graph, route = cluster.graph(), cluster.route(a, b)
    assert graph.number_of_edges() == cluster.link_count
    balance = Counter({cluster.device_of(a): 1, cluster.device_of(b): -1} if a != b else {})
    for link_id, share in route.links:
        link = cluster.link(link_id)
        edge = graph.edges[link.source, link.target]
        assert link.name == f"{link.source}>{link.target}" and 0 < share <= 1
        assert edge["id"] == link_id and edge["kind"] == link.kind and edge["latency_ps"] == link.latency_ps
        assert edge["capacity_bytes_s"] == link.capacity_bytes_s <= edge["bandwidth_bytes_s"] == link.bandwidth_bytes_s
        assert cluster.link_figures(link_id) == (link.kind, link.capacity_bytes_s, link.latency_ps)
        assert balance[link.source] > 0  # what a device sends on has come in before
        balance[link.source] -= share
        balance[link.target] += share
    assert not any(balance.values())
    assert len(dict(route.links)) == len(route.links)


@pytest.mark.parametrize("name", REAL)
def test_ids_and_graph_devices_are_complete(name):
    cluster = cluster_of(name, 2)
    graph = cluster.graph()
    assert sorted(number for _, _, number in graph.edges(data="id")) == list(range(cluster.link_count))
    kinds = Counter(kind for _, kind in graph.nodes(data="kind"))
    assert dict(kinds) == describe.describe(cluster)["devices"]
    with pytest.raises(IndexError):
        cluster.link_figures(cluster.link_count)
    for bad in (-1, cluster.link_count):
        with pytest.raises(IndexError):
            cluster.link(bad)
    for bad in (-1, cluster.gpus):
        with pytest.raises(IndexError):
            cluster.route(0, bad)


def test_an_ideal_cluster_has_no_links():
    cluster = cluster_of("ideal", None, gpus=4096, link_delay_ps=7)
    assert (cluster.gpus, cluster.nodes, cluster.gpus_per_node, cluster.link_count) == (4096, 1, 4096, 0)
    assert cluster.ideal and cluster.link_delay_ps == 7 and cluster.route(5, 4000) == ((), 0)
    assert cluster.graph().number_of_nodes() == 4096


def test_routes_of_a_large_cluster():
    cluster = cluster_of("dgx-a100", None, gpus=100_000)
    assert cluster.gpus == 100_000 and cluster.nodes == 12_500
    routes = [cluster.route(gpu, 99_999 - gpu) for gpu in range(20_000)]
    assert {len(route.links) for route in routes} == {6} and {share for _, share in routes[0].links} == {1}
    assert cluster.device_of(99_999) == "node12499/gpu7"
    assert all(cluster.link(a).target == cluster.link(b).source for (a, _), (b, _) in pairwise(routes[-1].links))


def test_a_cluster_survives_pickling():
    cluster = cluster_of("dgx-1-v100", 2)
    route = cluster.route(0, 13)
    copy = pickle.loads(pickle.dumps(cluster))
    assert copy == cluster and copy.route(0, 13) == route


def test_importing_the_package_leaves_networkx_alone():
    code = "import sys, clustersim.cluster.load, clustersim.cluster.describe; sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
