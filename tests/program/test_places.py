"""What exchanges load, beside what the collectives' own tests hold."""

from clustersim.cluster.load import load_cluster
from clustersim.program.grid import Grid
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
