"""What exchanges load, beside what the collectives' own tests hold."""

from clustersim.cluster.load import load_cluster
from clustersim.program.grid import Grid
from clustersim.program.places import Amounts, Place, place_loads

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
