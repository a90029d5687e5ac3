"""Sweeps against the closed forms: makespans, intensities of the papers, knees, traffic of the modular placement."""

import pytest

import clustersim

# X_160 (arXiv 2106.02679): 160 layers, hidden 25600, sequence 2560. One GPU a node, every FLOP at 312 TFLOP/s, data-parallel only.
L, HIDDEN, SEQUENCE, PEAK = 160, 25600, 2560, 312e12
M, REPLICAS = 5, 128
BACKWARD_S = 72 * SEQUENCE * HIDDEN**2 * (1 + SEQUENCE / (6 * HIDDEN)) / PEAK  # of a layer and micro-batch, with its recompute
FORWARD_S = BACKWARD_S / 3
X160 = f"""
model: x-160
cluster: one-gpu.yaml
parallel: {{data: {REPLICAS}}}
strategy: standard
batch: {{global: {M * REPLICAS}, micro: 1}}
recompute: full
cost: peak
"""
ONE_GPU = """
name: one-gpu
gpu:
  name: A100
  memory: 80 GiB
  memory_bandwidth: 2039 GB/s
  peak: {bf16: 312 TFLOP/s}
  efficiency: 1.0
node:
  gpus: 1
  nics: 1
  pcie: {bandwidth: 1 EB/s, latency: 0 us, gpus_per_switch: 1}
network: {bandwidth: 200 Gb/s, latency: 0 us}
collectives: {algorithms: [ring]}
"""


@pytest.fixture
def x160(tmp_path):
    (tmp_path / "one-gpu.yaml").write_text(ONE_GPU)
    (tmp_path / "x160.yaml").write_text(X160)

    def knees_at(tolerance, strategies=("standard", "lga")):
        vary = {"strategy.name": list(strategies), "network.bandwidth": "10..1000Gb/s:log3"}
        table = clustersim.sweep(tmp_path / "x160.yaml", vary, tolerance_percent=100 * tolerance, folder=tmp_path / "kept")
        return table, {knee["strategy"]: knee for knee in table.attrs["knees"]}

    return knees_at


def bandwidth_of(reduction_s):
    """At which a ring of the replicas reduces one layer's 12 h^2 parameters of 2 bytes in this time: bytes/s, one direction."""
    return 2 * (REPLICAS - 1) / REPLICAS * 2 * 12 * HIDDEN**2 / reduction_s


def test_where_gradient_traffic_begins_to_be_exposed(x160):
    # papers.md: 3/4 b s FLOP for each byte in and out (standard), 3/4 m b s (LGA); attention adds s/(6h). At the threshold the
    # last reduction is as long as one (LGA: m) backwards of a layer, and that is by how much the step is longer.
    ideal_s = M * L * (FORWARD_S + BACKWARD_S)
    found = {}
    for strategy, times in (("standard", 1), ("lga", M)):
        _, knees = x160(times * BACKWARD_S / ideal_s, [strategy])
        found[strategy] = knees[strategy]["value"]
        intensity = 3 / 4 * times * SEQUENCE * (1 + SEQUENCE / (6 * HIDDEN))
        both_ways = found[strategy] * 2 * REPLICAS / (REPLICAS - 1)
        assert PEAK / both_ways == pytest.approx(intensity, rel=0.01)
        assert knees[strategy]["infinite_step_time_s"] == pytest.approx(ideal_s, rel=1e-6)
    assert found["standard"] / found["lga"] == pytest.approx(M, rel=0.01)


def test_the_knees_of_the_closed_forms(x160):
    # closed_forms.md, "Data-parallel traffic beside compute": max(L t_b + r, t_b + L r) and max(L m t_b + r, m t_b + L r).
    table, knees = x160(0.05)
    late_s = 0.05 * M * L * (FORWARD_S + BACKWARD_S)
    by_hand = {
        "standard": bandwidth_of((late_s + (L - 1) * BACKWARD_S) / L),
        "lga": bandwidth_of((late_s + (L - 1) * M * BACKWARD_S) / L),
    }
    for strategy, expected in by_hand.items():
        knee = knees[strategy]
        assert knee["low_bytes_s"] < knee["high_bytes_s"] == knee["value"]
        assert knee["value"] == pytest.approx(expected, rel=0.005)
        assert (knee["field"], knee["unit"], knee["tolerance"]) == ("network.bandwidth", "B/s", 0.05)
    # Far too large for one GPU: the rows say so, and have all their figures.
    assert set(table["status"]) == {"infeasible"} and all("does not fit" in reason for reason in table["reason"])
    assert table["step_time_s"].notna().all()


SHAPES = """
model: {layers: 16, hidden: 1024, heads: 16}
cluster: paper-a100
parallel: {pipeline: 4}
strategy: standard
batch: {global: 8, micro: 1, sequence: 128}
cost: {forward: 1 s, backward: 3 s}
"""


def test_at_infinite_bandwidth_the_makespans_are_those_of_the_closed_forms(tmp_path):
    path = tmp_path / "shapes.yaml"
    path.write_text(SHAPES)
    vary = {"strategy.name": ["standard", "lga", "mpp"], "nvlink.bandwidth": "1kB/s..1GB/s:log7"}
    table = clustersim.sweep(path, vary)
    knees = {knee["strategy"]: knee for knee in table.attrs["knees"]}
    # closed_forms.md: L=16 p=4 m=8 t_f=1 t_b=3
    infinite = {name: knee["infinite_step_time_s"] for name, knee in knees.items()}
    assert infinite == pytest.approx({"standard": 176, "lga": 428, "mpp": 140}, rel=1e-9)
    for _, rows in table.groupby("strategy.name"):
        times = rows.sort_values("nvlink.bandwidth")["step_time_s"].tolist()
        assert times == sorted(times, reverse=True) and times[0] > 10 * times[-1]  # never faster when the links are slower
        assert rows["slowdown"].tolist() == pytest.approx((rows["step_time_s"] / infinite[rows["strategy.name"].iloc[0]]).tolist())
    # closed_forms.md: an interior rank sends K times, in total (L-1)/(p-1) = 15/3 times the messages.
    sent = table.groupby("strategy.name")["communication_bytes.pipeline"].first()
    assert sent["mpp"] == 15 / 3 * sent["standard"] == 15 / 3 * sent["lga"]
    assert sent["standard"] == 2 * 3 * 8 * 128 * 1024 * 2  # both ways, 3 boundaries, 8 micro-batches of b s h bf16


def test_without_data_parallelism_the_modular_placement_needs_the_faster_links(tmp_path):
    path = tmp_path / "shapes.yaml"
    path.write_text(SHAPES.replace("global: 8", "global: 4"))
    vary = {"strategy.name": ["standard", "gpipe", "mpp"], "nvlink.bandwidth": "1kB/s..1GB/s:log3"}
    knees = {knee["strategy"]: knee["value"] for knee in clustersim.sweep(path, vary).attrs["knees"]}
    # With as many micro-batches as stages every one of the 2 (L-1) = 30 transfers on the way through MPP's layers and back is waited
    # for, of GPipe's 2 (p-1) = 6; the steps take 76 and 112 s. A message has 128 x 1024 x 2 bytes.
    message = 128 * 1024 * 2
    assert knees["mpp"] == pytest.approx(message / (0.05 * 76 / 30), rel=0.005)
    assert knees["gpipe"] == pytest.approx(message / (0.05 * 112 / 6), rel=0.005)
    assert knees["mpp"] > 4 * knees["standard"]


def test_with_data_parallelism_it_needs_the_slower_network(tmp_path):
    path = tmp_path / "shapes.yaml"
    text = SHAPES.replace("{pipeline: 4}", "{pipeline: 4, data: 16}").replace("global: 8", "global: 128")
    text = text.replace("sequence: 128", "sequence: 16")
    path.write_text(text.replace("hidden: 1024", "hidden: 8192").replace("1 s, backward: 3 s", "1 ms, backward: 3 ms"))
    vary = {"strategy.name": ["standard", "mpp"], "network.bandwidth": "10..1000Gb/s:log3"}
    knees = {knee["strategy"]: knee["value"] for knee in clustersim.sweep(path, vary).attrs["knees"]}
    assert knees["mpp"] < 0.75 * knees["standard"]
