import io
import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from clustersim import document, presets
from clustersim.cluster.describe import describe, tables
from clustersim.cluster.load import LINK_KEYS, check_cluster, load_cluster
from clustersim.errors import InputError

GOOD = """\
name: box
gpu:
  name: G
  memory: 16 GB
  memory_bandwidth: 500 GB/s
  peak: {fp16: 100 TFLOP/s}
  efficiency: 0.5
node:
  gpus: 4
  nvlink:
    layout: mesh
    pairs: [[0, 1, 1], [2, 3, 2]]
    bandwidth: 25 GB/s
    latency: 1 us
  pcie: {bandwidth: 16 GB/s, latency: 1 us, gpus_per_switch: 2}
  nics: 2
  nic_of_gpu: [0, 0, 1, 1]
network: {bandwidth: 100 Gb/s, latency: 2 us, efficiency: 0.9}
"""
NAMES = presets.names("topologies")


def load(reference, near=Path(), gpus=1, nodes=None, overrides=None, **options):
    options = {"place": "exp.yaml:2", **options}
    return load_cluster(reference, gpus=gpus, nodes=nodes, overrides=overrides or {}, near=near, **options)


def written(tmp_path, text):
    (tmp_path / "box.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_sound_and_describes_itself(name):
    cluster = check_cluster(name)
    assert cluster.name == name and cluster.description and cluster.unreachable() is None
    data = describe(cluster)
    assert json.loads(json.dumps(data)) == data
    console = Console(width=160, record=True, file=io.StringIO())
    for table in tables(cluster):
        console.print(table)
    assert cluster.gpu.name in console.export_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_names_itself_and_begins_with_its_sources(name):
    text = (presets.folder("topologies") / f"{name}.yaml").read_text()
    assert yaml.safe_load(text)["name"] == name and text.startswith("# ")


def test_the_design_names_are_all_there():
    design = ["dgx-1-v100", "dgx-2h", "dgx-a100", "dgx-a100-40gb", "dgx-h100", "paper-a100", "pcie-ethernet", "ideal"]
    assert set(design) <= set(NAMES)


def test_a_file_relative_to_the_experiment(tmp_path):
    cluster = load("box.yaml", written(tmp_path, GOOD), gpus=9)
    assert (cluster.name, cluster.nodes, cluster.gpus) == ("box", 3, 12)
    assert [cluster.link(link).bandwidth_bytes_s for link, _ in cluster.route(10, 11).links] == [50 * 10**9]
    assert cluster.nic_of_gpu == (0, 0, 1, 1)


def test_the_affinity_spreads_gpus_over_nics_by_default(tmp_path):
    text = GOOD.replace("  nic_of_gpu: [0, 0, 1, 1]\n", "")
    assert load("box.yaml", written(tmp_path, text)).nic_of_gpu == (0, 0, 1, 1)


def test_one_node_needs_no_nics(tmp_path):
    text = GOOD.replace("  nics: 2\n  nic_of_gpu: [0, 0, 1, 1]\n", "")
    text = text[: text.index("network:")]
    near = written(tmp_path, text)
    assert len(load("box.yaml", near, gpus=4).route(0, 2).links) == 4
    assert check_cluster(tmp_path / "box.yaml").nodes == 1
    with pytest.raises(InputError, match=r"^exp.yaml:2: cluster box: node0/gpu0 cannot reach node1/gpu0 .*node.nics"):
        load("box.yaml", near, gpus=5)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("name: box", "nmae: box", "1: nmae: unknown key; did you mean 'name'"),
        ("  name: G\n", "  name: G\n  speed: 1\n", "4: gpu.speed: unknown key"),
        ("  name: G\n", "", "2: gpu: key 'name' is missing"),
        ("16 GB\n", "16\n", "4: gpu.memory: 16 has no unit"),
        ("500 GB/s", "0 GB/s", "5: gpu.memory_bandwidth: must be more than zero"),
        ("{fp16:", "{fp17:", "6: gpu.peak.fp17: unknown key; did you mean 'fp16'"),
        ("{fp16: 100 TFLOP/s}", "{}", "6: gpu.peak: give the peak of at least one precision"),
        ("100 TFLOP/s", "-1 TFLOP/s", "6: gpu.peak.fp16: must be more than zero"),
        ("efficiency: 0.5", "efficiency: 1.5", "7: gpu.efficiency: expected a number above 0 and at most 1"),
        ("efficiency: 0.5", "efficiency: .nan", "7: gpu.efficiency: expected a number"),
        ("gpus: 4", "gpus: 0", "9: node.gpus: expected a whole number from 1"),
        ("layout: mesh", "layout: mehs", "11: node.nvlink.layout: unknown value 'mehs'; did you mean 'mesh'"),
        ("layout: mesh", "layout: switch", "12: node.nvlink.pairs: only `layout: mesh` has pairs"),
        ("[0, 1, 1]", "[0, 4, 1]", "12: node.nvlink.pairs: entry 1 [0, 4, 1]: no GPU 4; allowed: 0 to 3"),
        ("[2, 3, 2]", "[1, 0, 2]", "12: node.nvlink.pairs: entry 2 [1, 0, 2]: GPUs 1 and 0 are joined already"),
        ("[2, 3, 2]", "[2, 2, 2]", "12: node.nvlink.pairs: entry 2 [2, 2, 2]: joins GPU 2 to itself"),
        ("[2, 3, 2]", "[2, 3]", "12: node.nvlink.pairs: entry 2: expected [GPU, GPU, number of links]"),
        ("[2, 3, 2]", "[2, 3, 0]", "12: node.nvlink.pairs: entry 2: expected [GPU, GPU, number of links]"),
        ("[[0, 1, 1], [2, 3, 2]]", "3", "12: node.nvlink.pairs: expected a list"),
        ("25 GB/s", "25", "13: node.nvlink.bandwidth: 25 has no unit"),
        ("latency: 1 us\n", "latency: -1 us\n", "14: node.nvlink.latency: must be zero or more"),
        ("16 GB/s", "0 GB/s", "15: node.pcie.bandwidth: must be more than zero"),
        ("gpus_per_switch: 2", "gpus_per_switch: 5", "15: node.pcie.gpus_per_switch: expected a whole number from 1 to 4"),
        ("gpus_per_switch: 2", "gpu_per_switch: 2", "15: node.pcie.gpu_per_switch: unknown key"),
        ("nics: 2", "nics: 3", "17: node.nic_of_gpu: NIC 2 serves no GPU"),
        ("[0, 0, 1, 1]", "[0, 0, 1]", "17: node.nic_of_gpu: expected a list of 4 NIC numbers"),
        ("[0, 0, 1, 1]", "[0, 0, 1, 2]", "17: node.nic_of_gpu: GPU 3 has no such NIC: 2; allowed: from 0 to 1"),
        ("[0, 0, 1, 1]", "[0, 0, 1, x]", "17: node.nic_of_gpu: GPU 3 has no such NIC: 'x'"),
        ("  nics: 2\n  nic_of_gpu: [0, 0, 1, 1]\n", "", "16: network: the nodes have no NICs to reach it"),
        ("  nics: 2\n  nic_of_gpu: [0, 0, 1, 1]\n", "  nics: 5\n", "16: node.nics: NIC 4 serves no GPU"),
        ("latency: 2 us", "latency: 2", "18: network.latency: 2 has no unit"),
        ("efficiency: 0.9", "efficiency: 0", "18: network.efficiency: expected a number above 0 and at most 1"),
        ("name: box", "ideal: true", "8: node: an ideal cluster has no links"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line_with_its_place(tmp_path, old, new, message):
    assert old in GOOD
    near = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        load("box.yaml", near)
    text = str(error.value)
    assert text.startswith(f"{tmp_path / 'box.yaml'}:{message}") and "\n" not in text


@pytest.mark.parametrize(
    "reference, options, message",
    [
        ("dgx-a10", {}, "unknown cluster 'dgx-a10'; did you mean 'dgx-a100'"),
        ("none.yaml", {}, "no such cluster file: none.yaml"),
        ("dgx-a100", {"gpus": 0}, "a cluster needs at least 1 GPU, got 0"),
        ("dgx-a100", {"nodes": -1}, "a cluster needs at least 1 node, got -1"),
        ("dgx-a100", {"gpus": 17, "nodes": 2}, "17 GPUs do not fit on 2 nodes of dgx-a100 with 8 GPUs each"),
        ("dgx-a100", {"link_delay_ps": 1}, "only `cluster: ideal` takes link_delay"),
    ],
)
def test_a_wrong_choice_is_reported_where_it_was_made(reference, options, message):
    with pytest.raises(InputError) as error:
        load(reference, **options)
    assert str(error.value).startswith(f"exp.yaml:2: {message}")


def overrides_from(text, *kinds):
    experiment = document.loads(text, "exp.yaml")
    return {kind: experiment.section(kind, LINK_KEYS) for kind in kinds}


def test_overrides_replace_single_figures_of_a_kind():
    overrides = overrides_from(
        "network: {bandwidth: 25 Gb/s}\nnvlink: {latency: 9 us, efficiency: 1}", "network", "nvlink", "pcie"
    )
    cluster = load("dgx-a100", nodes=2, overrides=overrides)
    network, nvlink = cluster.link(cluster.route(0, 8).links[2][0]), cluster.link(cluster.route(0, 1).links[0][0])
    assert (network.bandwidth_bytes_s, network.latency_ps, network.efficiency) == (3_125_000_000, 350_000, 0.96)
    assert (nvlink.bandwidth_bytes_s, nvlink.latency_ps, nvlink.efficiency) == (300 * 10**9, 9_000_000, 1.0)


def test_overriding_a_mesh_changes_one_link_of_each_bond():
    cluster = load("dgx-1-v100", overrides=overrides_from("nvlink: {bandwidth: 10 GB/s}", "nvlink"))
    assert {link.bandwidth_bytes_s for link in cluster.node_links if link.kind == "nvlink"} == {10**10, 2 * 10**10}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("dgx-a100", "network: {bandwidth: 25}", "network.bandwidth: 25 has no unit"),
        ("dgx-a100", "network: {bandwidth: 0 Gb/s}", "network.bandwidth: must be more than zero"),
        ("dgx-a100", "network: {efficiency: 2}", "network.efficiency: expected a number above 0"),
        ("pcie-ethernet", "nvlink: {bandwidth: 25 GB/s}", "nvlink: cluster pcie-ethernet has no nvlink links to change"),
        ("ideal", "network: {latency: 1 us}", "network: cluster ideal has no network links to change; it has no links"),
    ],
)
def test_a_wrong_override_is_reported_in_the_experiment(name, text, message):
    with pytest.raises(InputError) as error:
        load(name, overrides=overrides_from(text, text.partition(":")[0]))
    assert str(error.value).startswith(f"exp.yaml:1: {message}")


def test_sections_without_keys_override_nothing():
    overrides = overrides_from("model: x", "network", "nvlink", "pcie")
    assert load("pcie-ethernet", nodes=2, overrides=overrides) == load("pcie-ethernet", nodes=2)


def test_nodes_of_an_ideal_cluster_share_the_gpus():
    cluster = load("ideal", gpus=12, nodes=3)
    assert (cluster.nodes, cluster.gpus_per_node, cluster.gpus) == (3, 4, 12)


def test_the_description_of_a_mesh_shows_each_kind_of_path():
    data = describe(load("dgx-1-v100", nodes=2))
    paths = [(p["where"], p["target"], p["hops"], p["bottleneck_bytes_s"]) for p in data["paths"]]
    assert paths == [
        ("same node", "node0/gpu1", 1, 20_000_000_000),
        ("same node", "node0/gpu3", 1, 40_000_000_000),
        ("same node", "node0/gpu5", 4, 12_001_500_000),
        ("other node", "node1/gpu0", 6, 12_000_000_000),
    ]
    assert data["nvlink_per_gpu_bytes_s"] == 150 * 10**9
    assert data["devices"] == {"gpu": 16, "pcie_switch": 8, "host": 2, "nic": 8, "network_switch": 1}
    assert sum(row["count"] for row in data["links"]) == load("dgx-1-v100", nodes=2).link_count
    assert data["paths"][-1]["latency_s"] == pytest.approx(2.7e-6)
