"""What exchanges load, beside what the collectives' own tests hold."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustersim.cluster.load import load_cluster
from clustersim.collectives.loads import lay_phases
from clustersim.program.grid import DIMENSIONS, Grid
from clustersim.program.places import Place, Site, shape_of

LEAF_SPINE = """\
name: small
gpu: {name: x, memory: 80 GB, memory_bandwidth: 2 TB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 1.0}
node: {gpus: 1, nics: 1, pcie: {bandwidth: 32 GB/s, latency: 1 us}}
network: {layout: leaf-spine, nodes_per_leaf: 4, spines: 16, routing: ecmp, bandwidth: 100 Gb/s, latency: 2 us}
"""


def test_hashed_routes_of_a_pair_differ_by_what_it_sends(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(LEAF_SPINE)
    cluster = load_cluster(str(path), gpus=8, nodes=None, overrides={}, near=tmp_path, place="test")
    # Ranks 0 and 4 hold copies of one stage; in the other job they are neighbouring stages.
    data = Site(cluster, Grid(tensor=1, data=2, pipeline=4, order=("pipeline", "data", "context", "tensor")))
    pipeline = Site(cluster, Grid(tensor=1, data=4, pipeline=2))
    found = []
    for site, place in ((data, Place("data", 0, -1, "all_reduce", "ring")), (pipeline, Place("pipeline", 0, 1, "send", "ring"))):
        pattern = site.patterns(place)[0]
        assert pattern.ranks.tolist() == [[0, 4]]
        own = site.loads(place).phases[0][0].own
        found.append(set(site.links(own, pattern.ranks)[0][own.sender == 0].tolist()))
    reduced, sent = found
    assert reduced & sent  # the adapter
    assert reduced != sent  # another spine


def test_groups_of_one_place_may_lie_differently_and_each_has_its_own_algorithm():
    # Of three tensor groups of 6 on nodes of 8 the first lies on one node, the others on two, 2 + 4 and 4 + 2.
    cluster = load_cluster("dgx-h100", gpus=18, nodes=None, overrides={}, near=None, place="test")
    site = Site(cluster, Grid(tensor=6, data=3, pipeline=1))
    place = Place("tensor", 0, -1, "all_reduce", "in-switch")
    loads = site.loads(place)
    held = {tuple(pattern.groups.tolist()): phases[0].occupancy for pattern, phases in zip(loads.patterns, loads.phases, strict=True)}
    assert held[0,] > 1 and held[1,] == 1 == held[2,]  # NVLS holds its links longer; rings between nodes do not
    chosen = place._replace(algorithm="auto", chosen=(((6,), "tree"), ((2, 4), "multi-ring")))
    ranks = sorted(row for pattern in loads.patterns for row in pattern.ranks.tolist())
    assert [chosen.algorithm_for(shape_of(cluster, group)) for group in ranks] == ["tree", "multi-ring", "multi-ring"]


UNEVEN = """\
name: uneven
gpu: {name: x, memory: 80 GB, memory_bandwidth: 2 TB/s, peak: {fp16: 100 TFLOP/s}, efficiency: 1.0}
node:
  gpus: 4
  nics: 2
  nvlink: {layout: switch, bandwidth: 100 GB/s, latency: 1 us}
  pcie: {bandwidth: 32 GB/s, latency: 1 us, gpus_per_switch: 2}
network: {LAYOUT, bandwidth: 100 Gb/s, latency: 2 us}
"""
LAYOUTS = [
    "layout: flat",
    "layout: leaf-spine, nodes_per_leaf: 3, spines: 2",
    "layout: rail, nodes_per_leaf: 2, spines: 3",
    "layout: fat-tree, levels: [{ports: 4}, {ports: 3, switches: 2}, {ports: 8}]",
    "layout: leaf-spine, nodes_per_leaf: 3, spines: 2, routing: ecmp",
    "layout: torus, dimensions: [3, 2, 2]",
]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=8, deadline=None)
@given(
    tensor=st.sampled_from([1, 2, 4]), data=st.integers(1, 6), pipeline=st.integers(2, 3),
    order=st.permutations(["tensor", "context", "data", "pipeline"]),
    op=st.sampled_from(["all_reduce", "all_gather"]), algorithm=st.sampled_from(["ring", "multi-ring", "tree", "hierarchical", "direct"]),
)  # fmt: skip
def test_groups_that_lie_alike_load_what_each_would_by_itself(layout, tensor, data, pipeline, order, op, algorithm):
    assume(tensor * data * pipeline <= 48)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(UNEVEN.replace("LAYOUT", layout))
        cluster = load_cluster(str(path), gpus=48, nodes=12, overrides={}, near=path, place="test")
    grid = Grid(tensor=tensor, data=data, pipeline=pipeline, order=tuple(order))
    site = Site(cluster, grid)
    for place in (Place("data", 1, -1, op, algorithm), Place("tensor", 0, -1, op, algorithm), Place("pipeline", 0, 1, "send", algorithm)):
        found = site.loads(place)
        seen = []
        for pattern, phases in zip(found.patterns, found.phases, strict=True):
            for group, ranks in zip(pattern.groups.tolist(), pattern.ranks, strict=True):
                seen.append(group)
                flow = DIMENSIONS.index(place.dimension) * 2**16
                laid = lay_phases(cluster, ranks.tolist(), place.op, algorithm, or_ring=True, flow=flow)
                assert [phase.pace for phase in phases] == [phase.pace for phase in laid]
                for phase, expected in zip(phases, laid, strict=True):
                    total = site.links(phase.total, ranks[None])[0].tolist()
                    shares = [site.shares[amount] for amount in phase.total.amount.tolist()]
                    assert dict(zip(total, shares, strict=True)) == expected.total
                    assert {link: part for link, part in zip(total, phase.total.parts, strict=True) if part != 1} == expected.parts
                    own = site.links(phase.own, ranks[None])[0]
                    for member, carried in enumerate(expected.by_member if place.dimension != "pipeline" else [expected.by_member[0]]):
                        assert own[phase.own.sender == member].tolist() == list(carried)
        assert sorted(seen) == list(range(len(found.groups.members)))
