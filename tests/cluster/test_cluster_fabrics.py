import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim import document
from clustersim.cluster import meshes
from clustersim.cluster.bisection import bisection
from clustersim.cluster.describe import describe
from clustersim.cluster.links import Link
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.cluster.routes import ONE, Paths
from clustersim.errors import InputError

BOX = """\
gpu: {name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 0.5}
node:
  devices: {%s}
  links: [%s]
network: {bandwidth: 10 GB/s, latency: 1 us, %s}
"""
SMALL = {
    "leaf-spine": (1, "layout: leaf-spine, nodes_per_leaf: 2, spines: 3, trunk: {latency: 2 us}"),
    "leaf-spine of two NICs": (2, "layout: leaf-spine, nodes_per_leaf: 2, spines: 2"),
    "rail": (2, "layout: rail, nodes_per_leaf: 2, spines: 2, trunk: {latency: 2 us}"),
    "fat-tree": (1, "layout: fat-tree, levels: [{ports: 2}, {ports: 2, switches: 2}, {ports: 4, switches: 3}]"),
    "four levels": (1, "layout: fat-tree, levels: [{ports: 2}, {ports: 2, switches: 2}, {ports: 2}, {ports: 4, switches: 2}]"),
    "dragonfly": (1, "layout: dragonfly, nodes_per_router: 1, routers_per_group: 3, global_links: 1"),
    "dragonfly of few groups": (1, "layout: dragonfly, nodes_per_router: 1, routers_per_group: 2, global_links: 5"),
    "torus": (1, "layout: torus, dimensions: [4, 3]"),
    "torus of two": (1, "layout: torus, dimensions: [2, 1, 4, 2]"),
}


def written(tmp_path, nics, text):
    """A node of ``nics`` GPUs, each on a NIC of its own, and all on a switch."""
    devices = ", ".join([*(f"g{i}: gpu, n{i}: nic" for i in range(nics)), "s: nvswitch"])
    rate = "bandwidth: 100 GB/s, latency: 0 us"
    ends = [(f"g{i}", to, kind) for i in range(nics) for to, kind in ((f"n{i}", "pcie"), ("s", "nvlink"))]
    wires = ", ".join(f"{{from: {a}, to: {b}, kind: {kind}, {rate}}}" for a, b, kind in ends)
    (tmp_path / "box.yaml").write_text(BOX % (devices, wires, text))
    return str(tmp_path / "box.yaml")


def built(path, nodes, overrides=None):
    return load_cluster(path, gpus=1, nodes=nodes, overrides=overrides or {}, near=Path(), place="here")


def shares(cluster, a, b, flow=0):
    return {cluster.link(link).name: share for link, share in cluster.route(a, b, flow).links}


def switches_on_the_way(cluster, a, b, flow=0):
    names = (cluster.link(link).target for link, _ in cluster.route(a, b, flow).links)
    return [name for name in dict.fromkeys(names) if "/" not in name]


def split_hop_by_hop(graph, source, target, weight):
    """By networkx: every device on a shortest path sends equal parts over its links on such paths."""
    edges = {hop for path in networkx.all_shortest_paths(graph, source, target, weight) for hop in itertools.pairwise(path)}
    ways = networkx.DiGraph(edges)
    share = Counter({source: Fraction(1)})
    found = {}
    for device in networkx.topological_sort(ways):
        for edge in ways.out_edges(device):
            found[edge] = share[device] / ways.out_degree(device)
            share[edge[1]] += found[edge]
    return found


def test_a_flow_to_another_leaf_spreads_over_the_spines(tmp_path):
    cluster = built(written(tmp_path, *SMALL["leaf-spine"]), 4)
    third = Fraction(1, 3)
    assert shares(cluster, 0, 1) == {"node0/g0>node0/n0": 1, "node0/n0>leaf0": 1, "leaf0>node1/n0": 1, "node1/n0>node1/g0": 1}
    assert {name: share for name, share in shares(cluster, 1, 2).items() if "/" not in name} == {
        "leaf0>spine0": third, "leaf0>spine1": third, "leaf0>spine2": third,
        "spine0>leaf1": third, "spine1>leaf1": third, "spine2>leaf1": third,
    }  # fmt: skip
    assert cluster.route(0, 1).latency_ps == 2_000_000 and cluster.route(1, 2).latency_ps == 6_000_000
    # Two NICs of 10 GB/s below each leaf, over three spines.
    assert cluster.link(0).bandwidth_bytes_s == 6_666_666_667


def test_a_rail_joins_the_nics_of_one_number_in_a_pod(tmp_path):
    cluster = built(written(tmp_path, *SMALL["rail"]), 4)
    graph = cluster.graph()
    below = {leaf: sorted(name for name in graph.predecessors(leaf) if "/" in name) for leaf in ("leaf0", "leaf1", "leaf2", "leaf3")}
    assert below == {
        "leaf0": ["node0/n0", "node1/n0"], "leaf1": ["node0/n1", "node1/n1"],
        "leaf2": ["node2/n0", "node3/n0"], "leaf3": ["node2/n1", "node3/n1"],
    }  # fmt: skip
    assert switches_on_the_way(cluster, 0, 2) == ["leaf0"]
    assert switches_on_the_way(cluster, 0, 3) == ["leaf0", "spine0", "spine1", "leaf1"]
    assert switches_on_the_way(cluster, 1, 5) == ["leaf1", "spine0", "spine1", "leaf3"]


def test_a_fat_tree_climbs_no_higher_than_it_must(tmp_path):
    cluster = built(written(tmp_path, *SMALL["fat-tree"]), 8)
    assert describe(cluster)["devices"] == {"gpu": 8, "nic": 8, "nvswitch": 8, "leaf": 4, "spine": 4, "core": 3}
    assert switches_on_the_way(cluster, 0, 1) == ["leaf0"]
    assert switches_on_the_way(cluster, 0, 2) == ["leaf0", "spine0", "spine1", "leaf1"]
    assert switches_on_the_way(cluster, 0, 7) == [
        "leaf0", "spine0", "spine1", "core0", "core1", "core2", "spine2", "spine3", "leaf3",
    ]  # fmt: skip
    assert shares(cluster, 0, 7)["spine1>core2"] == Fraction(1, 6)
    assert built(written(tmp_path, *SMALL["fat-tree"]), 2).link_count == 8 + 4  # one leaf needs nothing above it


def test_dragonfly_goes_local_global_local(tmp_path):
    cluster = built(written(tmp_path, *SMALL["dragonfly"]), 9)  # three groups of three, one link a router, three to deal to two
    assert switches_on_the_way(cluster, 0, 2) == ["router0", "router2"]
    # Router 0 of each group leads one group on, router 1 two groups on.
    assert switches_on_the_way(cluster, 2, 3 + 2) == ["router2", "router0", "router4", "router5"]
    assert switches_on_the_way(cluster, 0, 4) == ["router0", "router4"]
    assert switches_on_the_way(cluster, 2, 6) == ["router2", "router1", "router6"]
    assert cluster.route(2, 5).latency_ps == 5_000_000


def test_dragonfly_bundles_the_links_that_meet_again(tmp_path):
    cluster = built(written(tmp_path, *SMALL["dragonfly of few groups"]), 4)
    across = {cluster.link(i).name: cluster.link(i).bandwidth_bytes_s for i in range(cluster.fabric.link_count)}
    assert across == {
        "router0>router1": 10**10, "router1>router0": 10**10, "router2>router3": 10**10, "router3>router2": 10**10,
        "router0>router2": 5 * 10**10, "router2>router0": 5 * 10**10, "router1>router3": 5 * 10**10, "router3>router1": 5 * 10**10,
    }  # fmt: skip


def test_a_torus_goes_the_shorter_way_round_or_both(tmp_path):
    cluster = built(written(tmp_path, 1, "layout: torus, dimensions: [4, 4]"), 16)
    assert switches_on_the_way(cluster, 0, 3) == ["router0", "router3"]
    half = Fraction(1, 2)
    between = {name: share for name, share in shares(cluster, 0, 2).items() if "/" not in name}
    assert between == {"router0>router1": half, "router0>router3": half, "router1>router2": half, "router3>router2": half}
    # One step in each dimension: first one or the other.
    assert shares(cluster, 0, 5)["router4>router5"] == half and cluster.route(0, 5).latency_ps == 4_000_000


@pytest.mark.parametrize("name", SMALL)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_routes_are_the_shortest_paths_of_networkx(name, data, tmp_path_factory):
    nodes = data.draw(st.integers(1, {"dragonfly of few groups": 7, "torus": 12, "leaf-spine of two NICs": 7}.get(name, 8)))
    cluster = built(written(tmp_path_factory.mktemp("box"), *SMALL[name]), nodes)
    a, b = (data.draw(st.integers(0, cluster.gpus - 1)) for _ in range(2))
    graph = cluster.graph()
    size = 3 if name == "dragonfly" else 2

    def weight(source, target, _):
        if "dragonfly" in name and source.startswith("router") and target.startswith("router"):
            return 1 if int(source[6:]) // size == int(target[6:]) // size else 3  # never two links between groups
        return 1

    gpus_per_node = cluster.gpus_per_node
    if a // gpus_per_node == b // gpus_per_node:
        return
    for gpu in range(cluster.gpus):  # GPUs do not forward, and a flow leaves by its own NIC
        if gpu not in (a, b):
            graph.remove_node(cluster.device_of(gpu))
    expected = split_hop_by_hop(graph, cluster.device_of(a), cluster.device_of(b), weight)
    assert {f"{source}>{target}": share for (source, target), share in expected.items()} == shares(cluster, a, b)


@st.composite
def wirings(draw):
    names = [f"d{i}" for i in range(draw(st.integers(2, 7)))]
    ends = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), unique=True, min_size=1, max_size=25))
    return names, [Link(f"{a}>{b}", a, b, "network", draw(st.sampled_from([10, 20])), 1) for a, b in ends if a != b]


@given(wirings())
@settings(max_examples=200, deadline=None)
def test_paths_over_any_links_are_those_of_networkx(wiring):
    names, wires = wiring
    paths = Paths(wires, ())
    graph = networkx.DiGraph()
    graph.add_nodes_from(names)
    for number, link in enumerate(wires):
        graph.add_edge(link.source, link.target, id=number, cost=10**6 + 1000 // link.bandwidth_bytes_s)
    route = paths.route("d0", "d1")
    if not networkx.has_path(graph, "d0", "d1"):
        assert route is None and "d1" not in paths.reached("d0")
        return
    expected = split_hop_by_hop(graph, "d0", "d1", "cost")
    assert {graph.edges[edge]["id"]: share for edge, share in expected.items()} == dict(route.links)
    assert route.latency_ps == networkx.shortest_path_length(graph, "d0", "d1")


@pytest.mark.parametrize("name", SMALL)
def test_ecmp_takes_one_of_the_equal_paths_and_flows_find_them_all(name, tmp_path):
    nodes = 7 if "few" in name else 8
    spread = built(written(tmp_path, *SMALL[name]), nodes)
    cluster = built(written(tmp_path, SMALL[name][0], SMALL[name][1] + ", routing: ecmp"), nodes)
    used = set()
    for flow in range(200):
        route = cluster.route(0, cluster.gpus - 1, flow)
        assert {share for _, share in route.links} == {ONE} and route == cluster.route(0, cluster.gpus - 1, flow)
        place = cluster.device_of(0)
        for link, _ in route.links:
            assert cluster.link(link).source == place
            place = cluster.link(link).target
        assert place == cluster.device_of(cluster.gpus - 1)
        used |= {link for link, _ in route.links}
    assert used == {link for link, _ in spread.route(0, cluster.gpus - 1).links}


def test_ecmp_hashes_source_destination_and_flow(tmp_path):
    cluster = built(written(tmp_path, 1, "layout: leaf-spine, nodes_per_leaf: 8, spines: 8, routing: ecmp"), 16)
    spine = Counter(switches_on_the_way(cluster, a, b, flow)[1] for a in range(8) for b in range(8, 16) for flow in range(10))
    assert len(spine) == 8 and min(spine.values()) > 50  # of 80
    assert [switches_on_the_way(cluster, 0, 8, flow)[1] for flow in range(6)] == [
        "spine6", "spine1", "spine5", "spine2", "spine2", "spine2"
    ]  # fmt: skip


def test_the_uplinks_of_a_leaf_share_its_nics_by_the_oversubscription(tmp_path):
    cluster = built(written(tmp_path, 2, "layout: leaf-spine, nodes_per_leaf: 4, spines: 2, oversubscription: 4"), 8)
    up = [link for link in map(cluster.link, range(cluster.link_count)) if link.source == "leaf0" and "spine" in link.target]
    assert [link.bandwidth_bytes_s for link in up] == [10**10, 10**10]  # 4 nodes x 2 NICs x 10 GB/s / 4 over 2 spines


def test_a_trunk_has_its_own_rate_and_follows_the_bandwidth_of_the_network(tmp_path):
    path = written(tmp_path, 1, "layout: torus, dimensions: [8], trunk: {bandwidth: 5 GB/s, latency: 3 us, efficiency: 0.5}")
    assert built(path, 8).link_figures(0) == ("network", 2_500_000_000, 3_000_000)
    half = document.loads("network: {bandwidth: 5 GB/s}", "exp.yaml").section("network", ("bandwidth",))
    assert built(path, 8, {"network": half}).link_figures(0) == ("network", 1_250_000_000, 3_000_000)
    late = document.loads("network: {latency: 9 us, routing: ecmp}", "exp.yaml").section("network", ("latency", "routing"))
    assert built(path, 8, {"network": late}).link_figures(0)[2] == 9_000_000
    assert built(path, 8, {"network": late}).routing == "ecmp"


@pytest.mark.parametrize(
    "text, message",
    [
        ("layout: ring", "network.layout: unknown value 'ring'"),
        ("layout: flat, spines: 2", "network.spines: `layout: flat` has no such key, `layout: leaf-spine` or `layout: rail` has"),
        ("layout: leaf-spine, spines: 2", "network: key 'nodes_per_leaf' is missing"),
        ("layout: leaf-spine, nodes_per_leaf: 2, spines: 0", "network.spines: expected a whole number from 1"),
        ("layout: rail, nodes_per_leaf: 2, spines: 1, oversubscription: 0", "network.oversubscription: expected a number above 0"),
        (
            "layout: rail, nodes_per_leaf: 2, spines: 1, oversubscription: 2, trunk: {bandwidth: 1 GB/s}",
            "network.oversubscription: the trunk has a bandwidth already",
        ),
        ("layout: rail, nodes_per_leaf: 2, spines: 1, trunk: {bandwidth: 0 GB/s}", "network.trunk.bandwidth: must be more than zero"),
        ("layout: fat-tree", "network: key 'levels' is missing"),
        ("layout: fat-tree, levels: 3", "network.levels: expected a list of mappings"),
        ("layout: fat-tree, levels: [{ports: 2}]", "network.levels: expected at least 2 levels"),
        ("layout: fat-tree, levels: [{ports: 0}, {ports: 2}]", "network.levels.0.ports: expected a whole number from 1"),
        ("layout: fat-tree, levels: [{prots: 2}, {ports: 2}]", "network.levels.0.prots: unknown key; did you mean 'ports'"),
        ("layout: fat-tree, levels: [{ports: 2}, 7]", "network.levels: entry 2: expected a mapping"),
        ("layout: fat-tree, levels: [{ports: 2}, {oversubscription: 2}]", "network.levels.1.oversubscription: the last level has no"),
        ("layout: fat-tree, levels: [{ports: 2, switches: 2}, {ports: 2}]", "network.levels.0.switches: a NIC hangs on one switch"),
        ("layout: fat-tree, levels: [{ports: 2}, {ports: 3}]", "network.levels: the levels hold 6 nodes of 1 NICs, not 8"),
        ("layout: torus, dimensions: [2, 3]", "network.dimensions: 2 x 3 = 6 routers, too few for 8 nodes"),
        ("layout: torus, dimensions: [2, 0]", "network.dimensions: expected 1 to 8 whole numbers of at least 1"),
        ("layout: torus, dimensions: 8", "network.dimensions: expected 1 to 8 whole numbers"),
        ("layout: torus, dimensions: [100000, 100000]", "network.dimensions: expected 1 to 8 whole numbers"),
        ("layout: torus, dimensions: [1000000]", "network.dimensions: expected 1 to 8 whole numbers of at least 1 whose product"),
        ("layout: leaf-spine, nodes_per_leaf: 2, spines: 1000000", "network.spines: expected a whole number from 1 to 10,000"),
        (
            "layout: fat-tree, levels: [{ports: 2}, {ports: 1000000, switches: 1000000}]",
            "network.levels.1.switches: 1,000,000 switches over groups of 1 are 1,000,000 links up from each group",
        ),
        (
            "layout: fat-tree, levels: [{ports: 2}, {ports: 2, switches: 200}, {ports: 2, switches: 200}]",
            "network.levels.2.switches: 200 switches over groups of 200 are 40,000 links up from each group",
        ),
        (
            "layout: dragonfly, nodes_per_router: 1, routers_per_group: 1000000, global_links: 1",
            "network.routers_per_group: 1,000,000 routers, each joined to each, are 999,999,000,000 links in every group",
        ),
        (
            "layout: dragonfly, nodes_per_router: 1, routers_per_group: 2, global_links: 1",
            "network.global_links: 2 routers x 1 reach 2 other groups, and 8 nodes make 4",
        ),
        ("routing: random", "network.routing: unknown value 'random'"),
    ],
)
def test_a_wrong_network_is_refused_in_one_line_with_its_place(tmp_path, text, message):
    path = written(tmp_path, 1, text)
    with pytest.raises(InputError) as error:
        built(path, 8)
    assert str(error.value).startswith(f"{path}:5: {message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, nodes, message",
    [
        ("layout: rail, nodes_per_leaf: 1, spines: 10000", 1000, "network.spines: 1,000 nodes take 20,000,000 links between switches"),
        (
            # 11 groups of 1000 x 999, and 1000 from each to the others
            "layout: dragonfly, nodes_per_router: 1, routers_per_group: 1000, global_links: 1", 11_000,
            "network.global_links: 11,000 nodes take 11,000,000 links between switches; allowed: at most 10,000,000",
        ),
    ],
)  # fmt: skip
def test_networks_that_run_away_are_refused(tmp_path, text, nodes, message):
    path = written(tmp_path, 1, text)
    with pytest.raises(InputError) as error:
        built(path, nodes)
    assert str(error.value).startswith(f"{path}:5: {message}") and "\n" not in str(error.value)


def test_a_node_of_too_many_nvlinks_is_refused(tmp_path):
    (tmp_path / "node.yaml").write_text(
        "gpu: {name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 0.5}\n"
        "node:\n  gpus: 1024\n  pcie: {bandwidth: 30 GB/s, latency: 1 us}\n"
        "  nvlink: {layout: switch, switches: 1024, bandwidth: 100 GB/s, latency: 1 us}\n"
    )
    message = "node.yaml:5: node.nvlink.switches: 1024 GPUs, each on all of 1024 NVSwitches, have 1,048,576 links; allowed: at most 8,192"
    with pytest.raises(InputError, match=message):
        built(str(tmp_path / "node.yaml"), 1)


def test_a_hundred_thousand_gpus_are_made_and_routed(tmp_path):
    levels = "levels: [{ports: 32}, {ports: 32, oversubscription: 2}, {ports: 128}]"
    cluster = built(written(tmp_path, 8, f"layout: fat-tree, {levels}"), 12_800)
    assert cluster.gpus == 102_400 and cluster.link_count > 400_000
    routes = [cluster.route(number, (number * 7919 + 50_000) % cluster.gpus) for number in range(20_000)]
    hops = [hop for route in routes[::100] for hop in itertools.pairwise(route.links)]
    assert hops and all(cluster.link(a).target == cluster.link(b).source for (a, _), (b, _) in hops)
    assert bisection(cluster).bytes_s == 102_400 // 4 * 10**10


def test_only_the_routes_that_are_asked_for_are_found(tmp_path, monkeypatch):
    cluster = built(written(tmp_path, 1, "layout: torus, dimensions: [10, 10, 10]"), 1000)
    calls = Counter()
    between = meshes.Torus.between
    monkeypatch.setattr(meshes.Torus, "between", lambda *args: calls.update([args[1:3]]) or between(*args))
    for _ in range(3):
        for b in range(1, 20):
            cluster.route(0, b)
    assert len(calls) == 19 and set(calls.values()) == {1}


@pytest.mark.parametrize(("levels", "nodes"), [("{ports: 4}, {ports: 2}", 2), ("{ports: 3}, {ports: 1}", 1)])
def test_a_small_tree_is_checked_at_the_size_that_it_holds(tmp_path, levels, nodes):
    text = BOX % (", ".join([*(f"g{i}: gpu, n{i}: nic" for i in range(3)), "s: nvswitch"]), ", ".join(
        part
        for i in range(3)
        for part in (
            f"{{from: g{i}, to: s, kind: nvlink, bandwidth: 100 GB/s, latency: 0 us}}",
            f"{{from: g{i}, to: n{i}, kind: pcie, bandwidth: 100 GB/s, latency: 0 us}}",
        )
    ), f"layout: fat-tree, levels: [{levels}]")
    path = tmp_path / "tree.yaml"
    path.write_text("name: tree\n" + text)
    assert check_cluster(str(path)).nodes == nodes


@pytest.mark.parametrize(
    ("device", "words"),
    [("{kind: nvswitch, node: 1}", "a nvswitch belongs to no node"),
     ("{kind: nvswitch, forwards: true}", "passes on what is not its own anyway")],
)
def test_keys_without_effect_are_refused(tmp_path, device, words):
    path = tmp_path / "box.yaml"
    link = "{from: g0, to: s, kind: nvlink, bandwidth: 1 GB/s, latency: 0 us}"
    path.write_text(f"name: box\ngpu: {{name: G, memory: 1 GB, memory_bandwidth: 1 GB/s, peak: {{fp16: 1 TFLOP/s}}, efficiency: 1}}\n"
                    f"devices: {{g0: gpu, s: {device}}}\nlinks: [{link}]\n")
    with pytest.raises(InputError, match=words):
        check_cluster(str(path))
