import pickle
from fractions import Fraction

import pytest

from clustersim import document
from clustersim.cluster.describe import describe
from clustersim.cluster.load import OVERRIDE_KEYS, check_cluster, load_cluster
from clustersim.errors import InputError

GPU = "gpu: {name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 0.5}\n"
WHOLE = (
    GPU
    + """\
devices:
  a0: {kind: gpu, node: a}
  a1: {kind: gpu, node: a}
  b0: {kind: gpu, node: b}
  b1: {kind: gpu, node: b}
  left: leaf
  right: leaf
links:
  - {from: a0, to: a1, kind: nvlink, bandwidth: 25 GB/s, latency: 1 us, count: 2}
  - {from: b0, to: b1, kind: nvlink, bandwidth: 25 GB/s, latency: 1 us}
  - {from: a0, to: left, kind: network, bandwidth: 10 GB/s, latency: 2 us}
  - {from: a0, to: right, kind: network, bandwidth: 10 GB/s, latency: 3 us}
  - {from: a1, to: left, kind: network, bandwidth: 10 GB/s, latency: 2 us}
  - {from: b0, to: left, kind: network, bandwidth: 10 GB/s, latency: 2 us}
  - {from: b0, to: right, kind: network, bandwidth: 10 GB/s, latency: 2 us}
  - {from: b1, to: left, kind: network, bandwidth: 10 GB/s, latency: 2 us}
"""
)
NODE = (
    GPU
    + """\
node:
  devices: {x: gpu, y: gpu, s0: nvswitch, s1: nvswitch, port: nic}
  links:
    - {from: x, to: s0, kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}
    - {from: x, to: s1, kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}
    - {from: y, to: s0, kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}
    - {from: y, to: s1, kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}
    - {from: x, to: port, kind: pcie, bandwidth: 16 GB/s, latency: 1 us}
    - {from: y, to: port, kind: pcie, bandwidth: 16 GB/s, latency: 1 us}
network: {bandwidth: 10 GB/s, latency: 1 us}
"""
)
HALF = Fraction(1, 2)


def load(tmp_path, text, gpus=1, nodes=None, overrides=None):
    (tmp_path / "own.yaml").write_text(text)
    return load_cluster("own.yaml", gpus=gpus, nodes=nodes, overrides=overrides or {}, near=tmp_path, place="exp.yaml:2")


def shares(cluster, a, b):
    return {cluster.link(link).name: share for link, share in cluster.route(a, b).links}


def test_a_whole_cluster_is_the_graph_of_the_file(tmp_path):
    cluster = load(tmp_path, WHOLE)
    assert (cluster.nodes, cluster.gpus_per_node, cluster.gpus, cluster.link_count) == (2, 2, 4, 16)
    assert [cluster.device_of(gpu) for gpu in range(4)] == ["a0", "a1", "b0", "b1"]
    assert shares(cluster, 0, 1) == {"a0>a1": 1}
    assert shares(cluster, 0, 2) == {"a0>left": HALF, "a0>right": HALF, "left>b0": HALF, "right>b0": HALF}
    assert cluster.route(0, 2).latency_ps == 5_000_000  # of the slower of two
    assert shares(cluster, 1, 3) == {"a1>left": 1, "left>b1": 1}
    assert cluster.link_figures(0) == ("nvlink", 50 * 10**9, 10**6)
    assert describe(cluster)["devices"] == {"gpu": 4, "leaf": 2} and describe(cluster)["layout"] == "explicit"
    assert describe(cluster)["bisection_bytes_s"] == 30 * 10**9  # what enters b0 and b1
    assert pickle.loads(pickle.dumps(cluster)) == cluster


def test_ecmp_takes_one_of_the_paths_of_a_whole_cluster(tmp_path):
    cluster = load(tmp_path, WHOLE + "network: {routing: ecmp}\n")
    ways = {tuple(cluster.link(link).name for link, _ in cluster.route(0, 2, flow).links) for flow in range(20)}
    assert ways == {("a0>left", "left>b0"), ("a0>right", "right>b0")}


def test_a_gpu_forwards_only_where_the_file_says_so(tmp_path):
    chain = WHOLE.replace("  - {from: a1, to: left, kind: network, bandwidth: 10 GB/s, latency: 2 us}\n", "")
    with pytest.raises(InputError, match=r"own.yaml:3: cluster own: a0 cannot reach b1|own.yaml:.*a1 cannot reach b0"):
        load(tmp_path, chain)
    cluster = load(tmp_path, chain.replace("a0: {kind: gpu,", "a0: {kind: gpu, forwards: true,"))
    assert shares(cluster, 1, 3) == {"a1>a0": 1, "a0>left": 1, "left>b1": 1}


def test_without_nodes_the_whole_cluster_is_one(tmp_path):
    bare = WHOLE.replace(", node: a", "").replace(", node: b", "")
    assert (load(tmp_path, bare).nodes, load(tmp_path, bare).gpus_per_node) == (1, 4)


def test_a_node_of_devices_is_repeated_and_its_nics_join_the_network(tmp_path):
    cluster = load(tmp_path, NODE, gpus=5)
    assert (cluster.nodes, cluster.gpus, cluster.link_count) == (3, 6, 3 * 14)
    assert shares(cluster, 2, 3) == {
        "node1/x>node1/s0": HALF, "node1/x>node1/s1": HALF, "node1/s0>node1/y": HALF, "node1/s1>node1/y": HALF,
    }  # fmt: skip
    assert list(shares(cluster, 1, 4)) == ["node0/y>node0/port", "node0/port>network", "network>node2/port", "node2/port>node2/x"]


def test_the_number_of_nvswitches_does_not_change_what_a_gpu_can_send(tmp_path):
    text = GPU + (
        "node:\n  gpus: 4\n  nvlink: {layout: switch, switches: %d, bandwidth: 200 GB/s, latency: 1 us}\n"
        "  pcie: {bandwidth: 16 GB/s, latency: 1 us}\n"
    )
    for switches in (1, 4):
        cluster = load(tmp_path, text % switches)
        data = describe(cluster)
        assert data["nvlink_per_gpu_bytes_s"] == 200 * 10**9 and data["devices"]["nvswitch"] == switches
        assert data["paths"][0]["bottleneck_bytes_s"] == 200 * 10**9 and data["bisection_bytes_s"] == 400 * 10**9
        assert len(cluster.route(0, 1).links) == 2 * switches


def test_overrides_reach_listed_links(tmp_path):
    assert set(OVERRIDE_KEYS["network"]) == {"bandwidth", "latency", "efficiency", "routing"}
    section = document.loads("nvlink: {bandwidth: 1 GB/s}", "exp.yaml").section("nvlink", OVERRIDE_KEYS["nvlink"])
    cluster = load(tmp_path, WHOLE, overrides={"nvlink": section})
    assert [cluster.link_figures(link)[1] for link in (0, 2, 4)] == [2 * 10**9, 10**9, 10**10]


def test_the_example_that_is_shipped():
    cluster = check_cluster("explicit-example")
    assert cluster.gpus == 4 and shares(cluster, 0, 3)["a/nic>switch0"] == HALF


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("  left: leaf", "  left: laef", "7: devices.left: unknown value 'laef'; did you mean 'leaf'"),
        ("  left: leaf", "  network: leaf", "7: devices.network: 'network' is the network"),
        ("  left: leaf", "  left>: leaf", "7: devices.left>: 'left>' is no name for a device"),
        ("  left: leaf\n", "  left: leaf\n  left: core\n", "8: devices.left: the key is given twice"),
        ("{kind: gpu, node: a}", "{kind: gpu, nodes: a}", "3: devices.a0.nodes: unknown key; did you mean 'node'"),
        ("{kind: gpu, node: a}", "{kind: gpu, node: b}", "4: devices.a1: the GPUs of a node must follow each other"),
        ("{kind: gpu, node: a}", "{kind: gpu}", "3: devices.a0: names no node while others do"),
        ("  left: leaf", "  c0: {kind: gpu, node: c}\n  left: leaf", "7: devices.c0: node 'c' has 1 GPUs and 'a' has 2"),
        ("from: a0, to: left", "from: a9, to: left", "12: links.2.from: no device 'a9'; did you mean"),
        ("from: a0, to: left", "from: a0, to: a0", "12: links.2.to: joins a0 to itself"),
        ("from: a0, to: right", "from: left, to: a0", "13: links.3.from: left and a0 are joined that way already"),
        ("from: a0, to: left", "to: left", "12: links.2: key 'from' is missing"),
        ("kind: network, bandwidth: 10 GB/s", "kind: network", "12: links.2: key 'bandwidth' is missing; expected a quantity"),
        ("bandwidth: 10 GB/s", "bandwidth: 0 GB/s", "12: links.2.bandwidth: must be more than zero"),
        ("bandwidth: 10 GB/s", "bandwith: 10 GB/s", "12: links.2.bandwith: unknown key; did you mean 'bandwidth'"),
        ("count: 2", "count: 0", "10: links.0.count: expected a whole number from 1"),
        ("kind: network", "kind: ethernet", "12: links.2.kind: unknown value 'ethernet'"),
        ("links:\n", "node: {gpus: 2}\nlinks:\n", "9: node: `devices` and `links` give the whole cluster"),
    ],
)
def test_a_wrong_graph_is_refused_in_one_line_with_its_place(tmp_path, old, new, message):
    assert old in WHOLE
    with pytest.raises(InputError) as error:
        load(tmp_path, WHOLE.replace(old, new, 1))
    assert str(error.value).startswith(f"{tmp_path / 'own.yaml'}:{message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, options, message",
    [
        (WHOLE, {"gpus": 5}, "exp.yaml:2: 5 GPUs do not fit on 2 nodes of own with 2 GPUs each; allowed: at most 4 GPUs"),
        (WHOLE, {"nodes": 3}, "exp.yaml:2: own has 2 nodes, each of them listed, not 3; allowed: 2"),
        (NODE.replace("  devices", "  gpus: 2\n  devices"), {}, "FILE:3: node.gpus: `devices` and `links` say it all"),
        (NODE.replace("port: nic", "port: leaf"), {}, "FILE:3: node.devices.port: unknown value 'leaf'"),
        (NODE.replace("x: gpu, y: gpu, ", ""), {}, "FILE:3: node.devices: no device is a gpu"),
    ],
)
def test_a_wrong_size_or_node(tmp_path, text, options, message):
    with pytest.raises(InputError) as error:
        load(tmp_path, text, **options)
    assert str(error.value).startswith(message.replace("FILE", str(tmp_path / "own.yaml")))


def test_disconnected_gpus_are_named_with_their_line(tmp_path):
    text = WHOLE.replace("  - {from: b1, to: left, kind: network, bandwidth: 10 GB/s, latency: 2 us}\n", "")
    with pytest.raises(InputError) as error:
        load(tmp_path, text)
    assert str(error.value) == f"{tmp_path / 'own.yaml'}:3: cluster own: a0 cannot reach b1 over any links"
    one_way = WHOLE.replace("{from: b1, to: left,", "{from: left, to: b1, one_way: true,")
    with pytest.raises(InputError, match=r"own.yaml:6: cluster own: b1 cannot reach a0"):
        load(tmp_path, one_way)
