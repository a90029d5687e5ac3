"""A cluster described in the experiment, whole or as changes to a file; ``--set`` and ``--vary`` reach into it."""

import re
from pathlib import Path

import pytest
import yaml

import clustersim
from clustersim import presets
from clustersim.errors import InputError


def cluster_of(*overrides):
    return clustersim.load("e.yaml", overrides).cluster


def test_a_key_of_a_preset_is_replaced_and_all_others_stay(small):
    before, after = cluster_of(), cluster_of("cluster.gpu.memory=1 GB")
    assert after.gpu.memory_bytes == 10**9 != before.gpu.memory_bytes
    assert after.gpu.peak_flop_s == before.gpu.peak_flop_s and after.node_links == before.node_links and after.name == before.name
    latency_ps = {link.latency_ps for link in cluster_of("cluster.network.latency=3 us").node_links if link.kind == "network"}
    assert latency_ps == {3 * 10**6}


def test_it_is_the_file_with_the_key_replaced(small):
    content = yaml.safe_load((presets.folder("topologies") / "pcie-ethernet.yaml").read_text())
    content["gpu"]["memory"] = "1 MB"
    Path("own.yaml").write_text(yaml.safe_dump(content))
    whole = yaml.safe_dump({**yaml.safe_load(small.read_text()), "cluster": content})
    Path("inline.yaml").write_text(whole)
    runs = [
        clustersim.simulate(clustersim.load(*arguments)).summary
        for arguments in (("e.yaml", ["cluster=./own.yaml"]), ("e.yaml", ["cluster.gpu.memory=1 MB"]), ("inline.yaml",))
    ]
    assert not any(summary.pop("fits") for summary in runs)
    assert [{**summary, "wall_s": 0} for summary in runs[1:]] == [{**runs[0], "wall_s": 0}] * 2


def test_a_sweep_over_a_key_of_the_topology(small):
    job = ["batch.global=4", "model.layers=2"]
    table = clustersim.sweep("e.yaml", {"cluster.gpu.memory": "1MB,80GB", "cluster.network.bandwidth": "1,2Gb/s"}, job)
    assert table["gpu_memory_bytes"].tolist() == [10**6] * 2 + [80 * 10**9] * 2
    assert table["status"].tolist() == ["infeasible"] * 2 + ["ok"] * 2
    slow = clustersim.simulate(clustersim.load("e.yaml", [*job, "network.bandwidth=1 Gb/s"])).summary
    assert table["step_time_s"][0] == table["step_time_s"][2] == slow["step_time_s"] > table["step_time_s"][1]
    assert [knee["field"] for knee in table.attrs["knees"]] == ["cluster.network.bandwidth"] * 2


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("cluster.gpu.memory=40", "--set cluster.gpu.memory=40: gpu.memory: 40 has no unit"),
        ("cluster.gpu.memroy=40 GB", "--set cluster.gpu.memroy=40 GB: gpu.memroy: unknown key; did you mean 'memory'?"),
        ("cluster.gpus=4", "--set cluster.gpus=4: cluster.gpus: unknown key; did you mean 'gpu'?"),
        ("cluster.base=pcie-ethernt", "cluster: unknown cluster 'pcie-ethernt'; did you mean 'pcie-ethernet'?"),
        ("cluster.base=3", "--set cluster.base=3: cluster.base: expected the name of a cluster or a path to a topology file, got 3"),
        ("cluster.gpu.memory.a=1", "--set cluster.gpu.memory.a=1: gpu.memory: expected a quantity with a unit"),
        ("cluster={node: {gpus: 2}}", "--set cluster={node: {gpus: 2}}: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(small, override, said):
    with pytest.raises(InputError, match="^" + re.escape(said) if said.startswith("--") else re.escape(said)) as refused:
        cluster_of(override)
    assert "\n" not in str(refused.value)
