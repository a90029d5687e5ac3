"""Bisection bandwidth by hand, and against networkx' maximum flow over every device and link of the cluster."""

from pathlib import Path

import networkx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustersim.cluster.bisection import bisection
from clustersim.cluster.describe import tables
from clustersim.cluster.load import load_cluster
from clustersim.errors import InputError

BOX = """\
gpu: {name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 0.5}
node:
  gpus: %d
  nics: %d
  nvlink: {layout: switch, bandwidth: 100 GB/s, latency: 1 us}
  pcie: {bandwidth: %d GB/s, latency: 1 us}
network: {bandwidth: 10 GB/s, latency: 1 us, %s}
"""


def built(folder, layout, nodes, gpus=1, nics=1, pcie=30):
    (folder / "box.yaml").write_text(BOX % (gpus, nics, pcie, layout))
    return load_cluster(str(folder / "box.yaml"), gpus=1, nodes=nodes, overrides={}, near=Path(), place="here")


def preset(name, nodes):
    return load_cluster(name, gpus=1, nodes=nodes, overrides={}, near=Path(), place="here")


def flow_over_all_links(cluster):
    graph = cluster.graph()
    for _, _, link in graph.edges(data=True):
        link["capacity"] = link["capacity_bytes_s"]
    for gpu in range(cluster.gpus):  # an edge without a capacity takes any amount
        first = gpu < cluster.nodes // 2 * cluster.gpus_per_node
        graph.add_edge(*(("from", cluster.device_of(gpu)) if first else (cluster.device_of(gpu), "to")))
    return networkx.maximum_flow_value(graph, "from", "to")


@pytest.mark.parametrize("nodes, expected", [(2, 192), (3, 192), (4, 384), (5, 384), (6, 576)])
def test_halves_are_whole_nodes_whatever_their_number(nodes, expected):
    found = bisection(preset("dgx-a100", nodes))
    assert found.bytes_s == expected * 10**9  # 8 NICs of 24 GB/s a node of the smaller half
    assert found.method == f"maximum flow over all links, from the first {nodes // 2} of {nodes} nodes to the other {nodes - nodes // 2}"


def test_one_node_is_halved_by_its_gpus_over_nvlink():
    found = bisection(preset("dgx-a100", 1))
    assert found.bytes_s == 4 * 235_200_000_000 and "first 4 of 8 GPUs to the other 4" in found.method


@pytest.mark.parametrize(
    "layout, nodes, expected",
    [
        ("layout: flat", 8, 40),  # 8 x 10 GB/s, one half of them
        ("layout: fat-tree, levels: [{ports: 2}, {ports: 2}, {ports: 2}]", 8, 40),
        ("layout: fat-tree, levels: [{ports: 2}, {ports: 2, oversubscription: 2}, {ports: 2}]", 8, 20),
        ("layout: fat-tree, levels: [{ports: 2, oversubscription: 2}, {ports: 2, oversubscription: 2}, {ports: 2}]", 8, 10),
        ("layout: fat-tree, levels: [{ports: 2, oversubscription: 4}, {ports: 4}]", 6, 15),  # the middle leaf keeps 10 to itself
        ("layout: leaf-spine, nodes_per_leaf: 4, spines: 4, oversubscription: 4", 8, 10),
        ("layout: rail, nodes_per_leaf: 4, spines: 2, oversubscription: 2", 8, 20),
        ("layout: torus, dimensions: [4, 2]", 8, 40),  # two rows of links, around and through: 4 of 10 GB/s
        ("layout: torus, dimensions: [2, 4], trunk: {bandwidth: 3 GB/s}", 8, 12),  # a ring of two is one link: 4 of 3 GB/s
        ("layout: torus, dimensions: [5], trunk: {bandwidth: 3 GB/s}", 5, 6),  # two places of a ring, however many nodes
        ("layout: dragonfly, nodes_per_router: 1, routers_per_group: 4, global_links: 1", 8, 40),
        ("layout: dragonfly, nodes_per_router: 2, routers_per_group: 2, global_links: 1", 8, 20),
        # Three groups of two routers: 0-3, 1-4, 2-5 between groups, 2-3 within the middle one; 5 GB/s each.
        ("layout: dragonfly, nodes_per_router: 1, routers_per_group: 2, global_links: 1, trunk: {bandwidth: 5 GB/s}", 6, 20),
        # One group: each of two routers has two links over.
        ("layout: dragonfly, nodes_per_router: 1, routers_per_group: 4, global_links: 1, trunk: {bandwidth: 2 GB/s}", 4, 8),
        # The middle one of three routers has a node of each half, 10 between these; 10 into the last router, half of it through the middle.
        ("layout: dragonfly, nodes_per_router: 2, routers_per_group: 3, global_links: 1, trunk: {bandwidth: 5 GB/s}", 6, 20),
        # 20 within router 1; router 0 sends 10 to router 2 and 5 to router 1, which go on by router 3.
        ("layout: dragonfly, nodes_per_router: 4, routers_per_group: 2, global_links: 2, trunk: {bandwidth: 5 GB/s}", 12, 35),
        # 20 within router 2; four links of 5 leave the first group.
        ("layout: dragonfly, nodes_per_router: 4, routers_per_group: 2, global_links: 2, trunk: {bandwidth: 5 GB/s}", 20, 40),
        # Groups 0, 1 to 3, 4: four links of 20. Of group 2 two routers send 2 x 20, two receive over two links of 20.
        ("layout: dragonfly, nodes_per_router: 2, routers_per_group: 4, global_links: 1, trunk: {bandwidth: 20 GB/s}", 40, 160),
    ],
)
def test_bisection_by_hand(tmp_path, layout, nodes, expected):
    cluster = built(tmp_path, layout, nodes)
    assert bisection(cluster).bytes_s == expected * 10**9 == flow_over_all_links(cluster)


def test_a_dragonfly_of_nine_groups(tmp_path):
    """Groups 0 to 3 to 5 to 8: 16 links of 40. Of group 4 four routers send 80 each, four receive over a link of 40 each."""
    layout = "layout: dragonfly, nodes_per_router: 2, routers_per_group: 8, global_links: 1, trunk: {bandwidth: 40 GB/s}"
    cluster = built(tmp_path, layout, 144, gpus=4, nics=4)
    assert cluster.link_count > 3000
    assert bisection(cluster).bytes_s == (16 * 40 + 4 * 80 + 4 * 40) * 10**9 == 1120 * 10**9


def test_a_node_that_cannot_fill_its_nics_is_the_limit(tmp_path):
    # Two NICs on one PCIe switch: GPU 0 has 8 GB/s into it, GPU 1 its own.
    assert bisection(built(tmp_path, "layout: flat", 3, gpus=2, nics=2, pcie=7)).bytes_s == 14 * 10**9
    # One NIC a GPU, half of the GPUs without: two GPUs, 4 GB/s each, at one NIC of 10.
    cluster = built(tmp_path, "layout: flat", 3, gpus=2, nics=1, pcie=4)
    assert bisection(cluster).bytes_s == 4 * 10**9 == flow_over_all_links(cluster)  # the NIC's own PCIe link


layouts = st.one_of(
    st.builds(
        "layout: dragonfly, nodes_per_router: {}, routers_per_group: {}, global_links: {}".format,
        st.integers(1, 4), st.integers(1, 4), st.integers(1, 3),
    ),
    st.builds("layout: torus, dimensions: {}".format, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    st.builds("layout: rail, nodes_per_leaf: {}, spines: {}".format, st.integers(1, 4), st.integers(1, 3)),
    st.builds("layout: leaf-spine, nodes_per_leaf: {}, spines: {}".format, st.integers(1, 4), st.integers(1, 3)),
    st.builds(
        "layout: fat-tree, levels: [{{ports: {}}}, {{ports: {}, switches: {}}}, {{ports: {}, switches: {}}}]".format,
        st.integers(1, 5), st.integers(2, 4), st.integers(1, 3), st.integers(2, 4), st.integers(1, 3),
    ),
)  # fmt: skip


@given(layouts, st.integers(0, 40), st.integers(2, 20), st.integers(1, 4), st.integers(1, 4), st.integers(2, 20))
@settings(max_examples=150, deadline=None)
def test_it_is_the_maximum_flow_over_all_links(tmp_path_factory, layout, trunk, nodes, gpus, nics, pcie):
    text = layout + (f", trunk: {{bandwidth: {trunk} GB/s}}" if trunk else "")
    try:
        cluster = built(tmp_path_factory.mktemp("box"), text, nodes, gpus, min(nics, gpus), pcie)
    except InputError:
        assume(False)
    assert bisection(cluster).bytes_s == flow_over_all_links(cluster)


@pytest.mark.parametrize("name, nodes", [("dgx-a100-fat-tree", 7), ("dgx-h100-rail", 71), ("dragonfly-a100", 13), ("torus-3d", 63)])
def test_presets_at_odd_sizes(name, nodes):
    cluster = preset(name, nodes)
    assert bisection(cluster).bytes_s == flow_over_all_links(cluster)


def test_listed_devices_are_halved_by_whole_nodes():
    assert bisection(preset("explicit-example", 2)).bytes_s == 24 * 10**9  # the NIC, over two switches


def test_large_clusters_merge_what_is_alike(tmp_path):
    assert bisection(preset("dgx-a100", 1_000_000)).bytes_s == 500_000 * 192 * 10**9
    assert bisection(preset("dgx-h100-rail", 10_000)).bytes_s == 5000 * 8 * 48 * 10**9  # full bisection
    assert bisection(built(tmp_path, "layout: torus, dimensions: [46, 46, 46]", 46**3)).bytes_s == 2 * 46**2 * 10**10
    assert bisection(built(tmp_path, "layout: leaf-spine, nodes_per_leaf: 1000000, spines: 5", 4_000_000)).bytes_s == 2 * 10**16


def test_what_does_not_merge_has_no_value_and_says_so(tmp_path):
    cluster = built(tmp_path, "layout: torus, dimensions: [45, 45, 45]", 45**3)
    assert bisection(cluster) == (None, "not sought: over 100,000 links that differ")
    rows = dict(zip(*(column.cells for column in tables(cluster)[0].columns), strict=False))
    assert rows["bisection bandwidth"] == "not sought: over 100,000 links that differ"
