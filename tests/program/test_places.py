"""What exchanges load, beside what the collectives' own tests hold."""

from clustersim.cluster.load import load_cluster
from clustersim.program.grid import Grid
from clustersim.program.places import Amounts, Place, place_loads, shape_of

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
    data = place_loads(cluster, Grid(tensor=1, data=2, pipeline=4, order=("pipeline", "data", "context", "tensor")),
                       Place("data", 0, -1, "all_reduce", "ring"), [(0, 0), (1, 0)], Amounts())
    pipeline = place_loads(cluster, Grid(tensor=1, data=4, pipeline=2), Place("pipeline", 0, 1, "send", "ring"), [(0, 0)], Amounts())
    assert data.ranks == [(0, 4)] == pipeline.ranks
    reduced = {link for link, _ in data.by_copy[0][0]}
    sent = {link for link, _ in pipeline.by_copy[0][0]}
    assert reduced & sent  # the adapter
    assert reduced != sent  # another spine


def test_groups_of_one_place_may_lie_differently_and_each_has_its_own_algorithm():
    # Of three tensor groups of 6 on nodes of 8 the first and last lie on one node, the second on two.
    cluster = load_cluster("dgx-h100", gpus=18, nodes=None, overrides={}, near=None, place="test")
    grid = Grid(tensor=6, data=3, pipeline=1)
    copies = [(copy, tensor) for copy in range(3) for tensor in range(6)]
    place = Place("tensor", 0, -1, "all_reduce", "in-switch")
    loads = place_loads(cluster, grid, place, copies, Amounts())
    switched = loads.occupancy[0]
    assert switched[0] > 1 and switched[1] == 1 == switched[2]  # NVLS holds its links longer; rings between nodes do not
    chosen = place._replace(algorithm="auto", chosen=(((6,), "tree"), ((2, 4), "multi-ring")))
    assert [chosen.algorithm_for(shape_of(cluster, group)) for group in loads.ranks] == ["tree", "multi-ring", "multi-ring"]
