"""How groups lie on clusters: rings along the topology whatever the order of the ranks, and switches that all members hang on."""

import random
from fractions import Fraction
from pathlib import Path

import pytest

from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.collectives.algorithms import OPS, algorithms_for
from clustersim.collectives.layout import lay_out, snake
from clustersim.collectives.loads import alone_ps, lay_phases

GB, S = 10**9, 10**12


def cluster_of(name, gpus):
    return load_cluster(str(name), gpus=gpus, nodes=None, overrides={}, near=Path(), place="test")


def written(tmp_path, text):
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


GPU = "gpu: {name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 0.5}\n"


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("torus-2d", range(16, 48)),
        ("torus-2d", range(0, 64, 3)),
        ("torus-3d", range(32)),
        ("dgx-h100", range(16)),
        ("dgx-h100", [0, 1, 2, 3, 9, 10, 12, 13]),
        ("dgx-1-v100", range(16)),
        ("dgx-1-v100", range(1, 8)),
        ("dragonfly-a100", range(4, 28)),
        ("pcie-ethernet", range(8)),
        ("nvl72", range(60, 84)),
        ("explicit-example", range(4)),
        ("ideal", range(6)),
    ],
)
def test_the_order_of_the_ranks_does_not_matter(name, ranks):
    cluster, shuffled = cluster_of(name, max(ranks) + 1), list(ranks)
    random.Random(0).shuffle(shuffled)
    across = [rank for first in range(8) for rank in ranks if rank % 8 == first]  # 0, 8, 1, 9, ...
    for op in OPS[:5]:
        able = algorithms_for(op, lay_out(cluster, ranks))
        for algorithm in able:
            expected = alone_ps(cluster, ranks, op, algorithm, 10**8)
            for group in (shuffled, across, list(ranks)[::-1]):
                assert algorithms_for(op, lay_out(cluster, group)) == able
                assert alone_ps(cluster, group, op, algorithm, 10**8) == expected, (op, algorithm)


def test_a_ring_on_a_torus_goes_over_neighbours():
    cluster, group = cluster_of("torus-2d", 64), list(range(64))
    random.Random(1).shuffle(group)
    # 2 (n-1) (a + S/(n b)): every hop one link of 50 GB/s and 1 us.
    expected = 126 * 10**6 + Fraction(2 * 63 * 4 * GB * S, 64 * 50 * GB)
    assert alone_ps(cluster, group, "all_reduce", "ring", 4 * GB) == expected
    for ranks in (range(0, 16), [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27], range(0, 64, 8)):  # rows, a square, a column
        n = len(ranks)
        (phase,) = lay_phases(cluster, ranks, "all_reduce", "ring")
        assert max(phase.total.values()) == Fraction(2 * (n - 1), n)  # no link twice
    column = alone_ps(cluster, range(0, 64, 8), "all_reduce", "ring", 4 * GB)
    assert column == 14 * 10**6 + Fraction(2 * 7 * 4 * GB * S, 8 * 50 * GB)


def test_a_snake_ends_beside_its_start():
    assert snake((3, 4), range(12)) == [0, 4, 8, 9, 5, 1, 2, 6, 10, 11, 7, 3]  # along the odd side
    assert snake((2, 2, 2), range(8)) == [0, 1, 3, 2, 6, 7, 5, 4]
    line = snake((4, 4, 4), range(64))
    places = [(number // 16, number // 4 % 4, number % 4) for number in line]
    for here, there in zip(places, places[1:] + places[:1], strict=True):
        steps = [min((a - b) % 4, (b - a) % 4) for a, b in zip(here, there, strict=True)]
        assert sorted(steps) == [0, 0, 1]


def test_rings_inside_the_nodes_follow_the_nvlinks():
    cluster = cluster_of("dgx-1-v100", 16)
    inside, between, _ = lay_phases(cluster, range(16), "all_reduce", "hierarchical")
    assert {cluster.link_figures(link)[0] for link in inside.total} == {"nvlink"}
    assert "network" in {cluster.link_figures(link)[0] for link in between.total}
    assert max(inside.total.values()) == Fraction(7, 8)


def test_nodes_that_nvlinks_join(tmp_path):
    text = GPU + (
        "devices: {g0: {kind: gpu, node: a}, g1: {kind: gpu, node: a}, g2: {kind: gpu, node: b}, g3: {kind: gpu, node: b}, s: nvswitch}\n"
        "links:\n"
    )
    text += "".join(f"  - {{from: g{i}, to: s, kind: nvlink, bandwidth: 50 GB/s, latency: 1 us}}\n" for i in range(4))
    cluster = check_cluster(written(tmp_path, text))
    # 2 (n-1) (a + S/(n b)) with 2 us over the switch.
    assert alone_ps(cluster, range(4), "all_reduce", "ring", GB) == 6 * 2 * 10**6 + Fraction(6 * GB * S, 4 * 50 * GB)


def node(switches, *more, kind="nvlink"):
    """GPUs g0, g1, ... by the switches each hangs on."""
    used = sorted({name for names in switches for name in names})
    devices = ", ".join([*(f"g{gpu}: gpu" for gpu in range(len(switches)))] + [f"{name}: nvswitch" for name in used] + ["p: pcie_switch"])
    links = [(f"g{gpu}", name, kind) for gpu, names in enumerate(switches) for name in names]
    links += [(f"g{gpu}", "p", "pcie") for gpu in range(len(switches))] + list(more)
    lines = "".join(f"    - {{from: {a}, to: {b}, kind: {kind}, bandwidth: 10 GB/s, latency: 0 us}}\n" for a, b, kind in links)
    return GPU + f"node:\n  devices: {{{devices}}}\n  links:\n{lines}collectives: {{in_switch: 0.5}}\n"


@pytest.mark.parametrize(
    ("text", "reduces"),
    [
        (node(["a", "a", "a"]), True),
        (node(["ab", "ab", "ab"]), True),  # every GPU on both, as the planes of one
        (node(["a", "a", ""]), False),  # the third on PCIe alone
        (node(["a", "a", "b", "b"]), False),  # two switches, nothing between them
        (node(["a", "a", "b", "b"], ("a", "b", "nvlink")), False),  # joined, but none has all members
        (node(["a", "ab", "b"]), False),
        (node(["", "", ""], ("g0", "s", "nvlink"), ("g1", "s", "nvlink")).replace("p: pcie_switch", "p: pcie_switch, s: nvswitch"), False),
    ],
)
def test_a_switch_reduces_for_those_that_hang_on_it(tmp_path, text, reduces):
    cluster = check_cluster(written(tmp_path, text))
    layout = lay_out(cluster, range(cluster.gpus_per_node))
    assert (layout.in_switch is not None) == reduces
    assert ("in-switch" in algorithms_for("all_reduce", layout)) == reduces


def test_a_part_of_a_node_may_hang_on_one_switch(tmp_path):
    cluster = check_cluster(written(tmp_path, node(["a", "a", "a", "b", "b", "b", ""])))
    assert lay_out(cluster, (0, 1, 2)).in_switch == lay_out(cluster, (5, 3, 4)).in_switch == Fraction(1, 2)
    assert lay_out(cluster, (0, 1, 3)).in_switch is lay_out(cluster, (0, 1, 6)).in_switch is None


def test_racks_and_nodes_each_on_their_switch():
    for name, gpus in (("dgx-h100", 16), ("nvl72", 144)):
        cluster = cluster_of(name, gpus)
        assert lay_out(cluster, range(gpus)).in_switch == lay_out(cluster, range(8)).in_switch == Fraction(17, 25)
    assert lay_out(cluster_of("dgx-a100", 8), range(8)).in_switch is None
