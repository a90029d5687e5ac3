"""The experiment file: what it means, and that nothing in it ends in anything but an experiment or one line."""

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim import document, experiment, presets
from clustersim.errors import InputError
from tests.conftest import SMALL

SHIPPED = presets.names("schedules")


def parsed(*overrides, text=SMALL):
    return experiment.parse(document.loads(text, "e.yaml").override(overrides, {"strategy": "name"}), Path("."))


def test_degrees_and_batch():
    read = parsed("batch.global=48", "batch.micro=2", "parallel={data: 3, pipeline: 4, tensor: 2}")
    assert (read.grid.data, read.grid.pipeline, read.grid.tensor, read.grid.ranks) == (3, 4, 2, 24)
    assert read.micro_batches == 48 / (2 * 3)
    assert read.cluster.gpus == 24  # 6 nodes of 4


def test_defaults():
    read = parsed()
    assert (read.recompute, read.precision, read.cost, read.strategy.overlap, read.strategy.partition) == (
        "none", "bf16", None, True, "none",
    )  # fmt: skip
    assert parsed("parallel=").grid.ranks == 1


@pytest.mark.parametrize(
    ("name", "stages", "placement"),
    [("standard", 2, (0, 1)), ("lga", 8, (0, 0, 0, 0, 1, 1, 1, 1)), ("mpp", 8, (0, 1, 0, 1, 0, 1, 0, 1))],
)
def test_strategies_place_their_stages(name, stages, placement):
    schedule = parsed(f"strategy.name={name}").schedule
    assert (schedule.stages, schedule.placement) == (stages, placement)


def test_a_strategy_may_be_a_plain_name_and_overridden_all_the_same():
    text = SMALL.replace("{name: mpp}", "mpp")
    assert parsed("strategy.chunks=2", text=text).schedule.placement == (0, 1, 0, 1)
    assert parsed("strategy.name=standard", text=text).strategy.name == "standard"
    assert parsed("strategy=standard", "strategy.order=gpipe").strategy.order == "gpipe"


def test_another_strategy_drops_what_belonged_to_the_first(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text(SMALL.replace("name: mpp", "name: mpp, chunks: 2, partition: optimizer, overlap: false"))
    assert experiment.load(path, strategy="mpp").schedule.stages == 4
    other = experiment.load(path, strategy="standard")
    assert (other.schedule.stages, other.strategy.partition, other.strategy.overlap) == (2, "optimizer", False)
    with pytest.raises(InputError, match=r"strategy.name: unknown value 'lg'; did you mean 'lga'"):
        experiment.load(path, strategy="lg")


def test_link_sections_replace_the_rates_of_the_cluster():
    read = parsed("network={bandwidth: 400 Gb/s, latency: 7 us}")
    network = [link for link in read.cluster.node_links if link.kind == "network"]
    assert {(link.bandwidth_bytes_s, link.latency_ps) for link in network} == {(50_000_000_000, 7_000_000)}


def test_fixed_costs():
    cost = parsed("cost={forward: 1 s, backward: 3 s, reduce: 2 s}").cost
    assert (cost.forward_s, cost.backward_s, cost.reduce_s, cost.gather_s) == (1.0, 3.0, 2.0, None)
    assert parsed("cost=peak").cost == "peak"


def test_file_names_are_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "cluster.yaml").write_text((presets.folder("topologies") / "dgx-h100.yaml").read_text())
    (tmp_path / "sub" / "e.yaml").write_text(SMALL.replace("pcie-ethernet", "cluster.yaml"))
    monkeypatch.chdir(tmp_path)
    assert experiment.load("sub/e.yaml").cluster.gpus_per_node == 8


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_are_found_from_any_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert experiment.load(name).warnings == () or name == "pipeline-shapes"
    assert experiment.load(name, strategy="standard").strategy.name == "standard"


def test_names_do_not_reach_outside_the_presets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("../topologies/dgx-a100", "..", ".", "", "/"):
        with pytest.raises(InputError):
            experiment.load(name)


def test_a_file_without_suffix_is_shown_how_to_name_it(small):
    os.rename("e.yaml", "mine")
    with pytest.raises(InputError, match=r"unknown experiment 'mine'.*\(\./mine is one\)"):
        experiment.load("mine")
    assert experiment.load("./mine").model.layers == 8


def test_warnings_say_why_it_is_slow():
    (few,) = parsed("batch.global=2").warnings
    assert few.startswith("1 micro-batch on 2 pipeline stages") and "idle" in few
    (order,) = parsed("strategy.name=lga").warnings
    assert "mpp" in order
    assert parsed().warnings == () == parsed("batch.global=4").warnings


def test_unfolded_size_counts_every_copy(monkeypatch):
    monkeypatch.setattr("clustersim.experiment.MAX_UNFOLDED_PASSES", 600_000)
    read = parsed("batch.global=40000")  # 8 layers x 20,000 micro-batches, 4 copies
    with pytest.raises(InputError, match="x 4 unfolded copies = 640,000 passes"):
        experiment.check_unfolded(read)
    experiment.check_unfolded(parsed())


def key_paths(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from key_paths(inner, (*path, key))


FULL = yaml.safe_load(SMALL) | {
    "model": {"layers": 8, "hidden": 64, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 256, "gated": False, "vocab": 100},
    "strategy": {
        "name": "mpp", "placement": "modular", "order": "layered", "timing": "layer", "chunks": 2, "partition": "none",
        "overlap": True, "prefetch": 1,
    },
    "parallel": {"data": 2, "pipeline": 2, "tensor": 2, "context": 1, "expert": 1, "order": ["tensor", "data", "pipeline"]},
    "network": {"bandwidth": "10 Gb/s", "latency": "5 us", "efficiency": 0.5},
    "cost": {"forward": "1 s", "backward": "3 s", "reduce": "1 s", "gather": "1 s"},
    "nodes": 2, "precision": "bf16", "recompute": "none", "steps": 1, "link_delay": "0 s",
}  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.integers(-3, 40) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["1 s", "-1 s", "0 s", "1 Gb/s", "0 Gb/s", "1e30 h", "mpp", "peak", "ideal", "x-160", "fp8", "1", "true", ""])
    | st.integers(10**9, 10**40) | st.just("x" * 5000)
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3))


def test_the_full_example_is_right():
    assert parsed(text=yaml.safe_dump(FULL)).micro_batches == 8


def replaced(data, path, value):
    if not path or not isinstance(data, dict):
        return value if not path else data
    return {**data, path[0]: replaced(data.get(path[0]), path[1:], value)}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([path for path in key_paths(FULL) if path]), VALUES), min_size=1, max_size=2))
def test_any_values_make_an_experiment_or_one_line(changes):
    data = FULL
    for path, value in changes:
        data = replaced(data, path, value)
    try:
        parsed(text=yaml.safe_dump(data, allow_unicode=True))
    except InputError as error:
        assert str(error).startswith("e.yaml") and len(str(error)) < 2000


@pytest.mark.parametrize(
    ("algorithm", "partition", "words"),
    [
        ("tree", "parameters", ["tree has no reduce-scatter for the data", "tree has no all-gather for the data"]),
        ("hierarchical", "none", ["hierarchical has no all-reduce for the tensor", "hierarchical has no all-reduce for the data"]),
        ("ring", "parameters", []),
        ("auto", "parameters", []),
    ],
)
def test_what_a_named_algorithm_does_not_do_is_a_warning(algorithm, partition, words):
    from tests.helpers import parsed

    warnings = parsed(
        f"""
model: {{layers: 4, hidden: 64, heads: 8}}
cluster: dgx-a100
parallel: {{data: 3, tensor: 8}}
strategy: {{name: lga, partition: {partition}}}
batch: {{global: 6, micro: 1, sequence: 128}}
collectives: {algorithm}
"""
    ).warnings
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))
