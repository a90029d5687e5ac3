"""Each published row is simulated as it was run: what the sources say about their runs, against the experiments."""

import csv
import json

import pytest

from clustersim import document
from clustersim.experiment import parse
from clustersim.fitting.times import middle_layer_s
from clustersim.model.load import load_model
from clustersim.published import bloom, dgx_cloud, korthikanti, llm_foundry, megatron, nccl, torchtitan, zero_bubble
from clustersim.published.case import CALIBRATION, DATA, TEST, error
from clustersim.published.catalogue import SOURCES, cases_of

CASES, LEFT_OUT = cases_of(list(SOURCES))


def published(name):
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parsed(keys):
    return parse(document.Document(keys, "published"), DATA)


def count(source, use=None, quantity=None):
    return sum(case.source == source and use in (None, case.use) and quantity in (None, case.quantity) for case in CASES)


@pytest.mark.parametrize(
    ("source", "file", "figures_of_a_row"),
    [
        ("korthikanti-2022-layer", "korthikanti2022_layer_time_a100.csv", 2),
        ("korthikanti-2022", "korthikanti2022_iteration_time_a100.csv", 2),
        ("megatron-2019", "megatron2019_weak_scaling_v100.csv", 1),
        ("megatron-2020", "megatron2020_tensor_parallel_v100_a100.csv", 1),
        ("megatron-2021", "megatron2021_weak_scaling_a100.csv", 1),
        ("dgx-cloud", "dgx_cloud_h100_8b_15b.csv", 1),
        ("llm-foundry", "llm_foundry_fsdp_8_16_gpus.csv", 1),
    ],
)
def test_every_row_has_its_figures(source, file, figures_of_a_row):
    assert count(source) == figures_of_a_row * len(published(file))


def test_every_row_of_the_others_has_a_figure_or_a_reason():
    assert count("torchtitan", quantity="throughput") == len(published("torchtitan_llama3_h100.csv")) - 2  # rowwise float8
    assert count("torchtitan", quantity="peak memory") == sum(bool(row["peak_mem_GiB"]) for row in published("torchtitan_llama3_h100.csv"))
    assert count("zero-bubble-2024", quantity="throughput") == 24 and count("zero-bubble-2024", quantity="peak memory") == 18
    rows = published("bloom_tuning_grid_a100.csv")
    unknown = [row for row in rows if not row["heads"] or not row["layers"] or not row["status"]]
    assert sum(each.source == "bloom" for each in LEFT_OUT) == len(unknown) == 13
    assert count("bloom", quantity="fits in memory") == len(rows) - 13
    assert count("bloom", quantity="iteration time") == sum(bool(row["sec_per_iter"]) for row in rows if row not in unknown)
    curves = [row for row in published("nccl_collective_curves.csv") if int(row["size_bytes"]) >= 1e6 and row["collective"] != "reduce"]
    assert count("nccl") == len(curves)


def test_what_may_be_fitted():
    """The README of the measurements: one node; one GPU; three models without a pipeline; eight GPUs; layers."""
    fitted = {(case.source, case.case) for case in CASES if case.use == CALIBRATION and case.source != "nccl"}
    assert fitted == {
        *((case.source, case.case) for case in korthikanti.layer_time()),
        ("megatron-2019", "1.2B on 1 GPU"),
        ("megatron-2020", "DGX-2 V100, 1B, tensor 1"), ("megatron-2020", "DGX-A100, 1B, tensor 1"),
        ("megatron-2021", "1.7B"), ("megatron-2021", "3.6B"), ("megatron-2021", "7.5B"),
        *(("dgx-cloud", f"llama31-8b on 8 GPUs, {release}") for release in ("v24.11.1", "v25.02", "v25.04")),
    }  # fmt: skip
    assert all((" 2 nodes " in case.case) == (case.use == TEST) for case in CASES if case.source == "nccl")


def test_the_printed_numbers_of_parameters_follow_from_the_shapes():
    for row, case in zip(published("llm_foundry_fsdp_8_16_gpus.csv"), llm_foundry.throughput(), strict=True):
        keys = case.experiments[0]
        model = load_model(keys["model"], document.Document(keys, "published"), "model", DATA, int(row["seq_len"]))
        assert model.parameters == int(row["n_params"])


def test_nemotron_has_fifteen_billion_parameters():
    """32 layers of 2 h^2 + 2 h^2 8/48 in the attention and 2 x 4 h^2 in the MLP, two matrices of 256,000 rows, norms with biases."""
    keys = dgx_cloud.steps()[-1].experiments[0] | {"model": "nemotron4-15b.json"}
    model = load_model(keys["model"], document.Document(keys, "published"), "model", DATA)
    hidden = 6144
    assert model.parameters == 32 * (10 * hidden**2 + hidden**2 // 3 + 4 * hidden) + 2 * 256_000 * hidden + 2 * hidden
    assert not model.dropout and not model.tied and not model.gated


@pytest.mark.parametrize(
    ("cases", "file", "gpus"),
    [
        (megatron.weak_scaling_2021, "megatron2021_weak_scaling_a100.csv", "n_gpus"),
        (megatron.tensor_parallel_2020, "megatron2020_tensor_parallel_v100_a100.csv", "n_gpus"),
        (megatron.weak_scaling_2019, "megatron2019_weak_scaling_v100.csv", "n_gpus"),
        (dgx_cloud.steps, "dgx_cloud_h100_8b_15b.csv", "n_gpus"),
        (llm_foundry.throughput, "llm_foundry_fsdp_8_16_gpus.csv", "n_gpus"),
    ],
)
def test_the_degrees_make_the_published_number_of_gpus(cases, file, gpus):
    for row, case in zip(published(file), cases(), strict=True):
        degrees = case.experiments[0]["parallel"]
        product = 1
        for name in ("data", "pipeline", "tensor", "context"):
            product *= degrees.get(name, 1)
        assert product == int(row[gpus])


def test_gradients_accumulate_as_the_recipes_say():
    for row, case in zip(published("dgx_cloud_h100_8b_15b.csv"), dgx_cloud.steps(), strict=True):
        keys = case.experiments[0]
        assert keys["batch"]["global"] // keys["batch"]["micro"] // keys["parallel"]["data"] == float(row["ga"])
    for row, case in zip(published("llm_foundry_fsdp_8_16_gpus.csv"), llm_foundry.throughput(), strict=True):
        keys = case.experiments[0]
        assert keys["batch"]["global"] // keys["batch"]["micro"] // keys["parallel"]["data"] == int(row["grad_accum"])


def test_chunks_of_2021():
    """Layers of a chunk: 5, 5, 3 and 1 in the scripts, of 60/4, 80/8, 96/16 and 105/35 layers of a rank."""
    chunks = {case.case: case.experiments[0]["strategy"].get("chunks") for case in megatron.weak_scaling_2021()}
    assert {name: v for name, v in chunks.items() if v} == {"76.1B": 3, "145.6B": 2, "310.1B": 2, "529.6B": 3}
    overlapped = [case.case for case in megatron.weak_scaling_2021() if case.experiments[0]["strategy"]["overlap"]]
    assert overlapped == ["1.7B", "3.6B", "7.5B", "18.4B"]


def test_flops_of_2021_are_the_printed_ones():
    """The file's iteration times were computed from the printed TFLOP/s by equation 3."""
    for row in published("megatron2021_weak_scaling_a100.csv"):
        summary = {"step_time_s": float(row["iter_time_s_derived_from_eq3"]), "ranks": int(row["n_gpus"])}
        printed = float(row["tflops_per_gpu_with_recompute_eq3"])
        assert megatron.flop_s_per_gpu(row, 2048, summary) / 1e12 == pytest.approx(printed, rel=2e-3)


def test_scaling_is_relative_to_the_one_gpu():
    """A model of the same size on 64 GPUs with 64 times the batch, in twice the time, scales to half."""
    case = next(case for case in megatron.weak_scaling_2019() if case.case == "1.2B on 64 GPUs")
    assert case.predicted([{"step_time_s": 2.0, "ranks": 64}, {"step_time_s": 1.0, "ranks": 1}]) == pytest.approx(50)


def test_stages_of_bloom():
    """The notes: 5, 6, ..., 6, 5 of BLOOM's 70 layers on 12 stages; of 78 the last stage has one, the rest have 7."""
    assert bloom.stages(70, 12, 1) == [5, *[6] * 10, 5]
    assert bloom.stages(78, 12, 0) == [*[7] * 11, 1]
    assert bloom.stages(72, 12, 0) == [6] * 12
    assert bloom.stages(100, 6, 1) == [16, 17, 17, 17, 17, 16]
    assert bloom.stages(8, 1, 0) == [8]
    keys = [case.experiments[0] for case in cases_of(["bloom"])[0]]
    assert all(each["strategy"]["stages"] == [8, *[9] * 10, 8] for each in keys if each["model"]["layers"] == 106)


def test_rank_correlation():
    """Of four times, the two in the middle change places: rho = 1 - 6 x 2 / (4 x 15) = 0.8."""
    cases, _ = cases_of(["bloom"])
    times = [case for case in cases if case.quantity == "iteration time"][:4]
    correlation = bloom.correlation(times)
    order = sorted(range(4), key=lambda place: times[place].measured)
    predicted = [0.0] * 4
    for time, place in zip((1.0, 3.0, 2.0, 4.0), order, strict=True):
        predicted[place] = time
    assert correlation.predicted([{"step_time_s": time} for time in predicted]) == pytest.approx(0.8)


def test_order_of_schedules():
    cases, _ = cases_of(["zero-bubble-2024"])
    order = next(case for case in cases if case.quantity == "order of schedules" and case.case == "1.5B, 32 micro-batches")
    # 14.8, 13.4, 12.5, 13.4 samples/s: ZB-1p and interleaved do not differ, which leaves five pairs.
    assert order.measured == 5
    assert order.predicted([{"step_time_s": time} for time in (1.0, 2.0, 3.0, 2.5)]) == 5
    assert order.predicted([{"step_time_s": time} for time in (1.0, 3.0, 2.0, 2.5)]) == 3


def test_profiled_times_are_those_of_a_rank():
    """Three layers a rank: T_F 18.522, T_B 18.086 and T_W 9.337 ms; 24 micro-batches of six."""
    keys = zero_bubble.schedules()[0].experiments[0]
    experiment = parsed(keys)
    cost = experiment.cost
    assert [3e3 * time for time in (cost.forward_s, cost.input_s, cost.weight_s)] == pytest.approx([18.522, 18.086, 9.337])
    assert 3e3 * cost.backward_s == pytest.approx(18.086 + 9.337)
    assert len(experiment.stage_layers[0]) == 3 and experiment.micro_batches == 24


@pytest.mark.parametrize(
    ("name", "parallel", "batch", "partition"),
    [
        ("Llama3.1-8B, FSDP1 CP8", {"data": 1, "context": 8, "tensor": 1, "pipeline": 1}, {"global": 1, "micro": 1}, "parameters"),
        ("Llama3.1-70B, FSDP32 TP8", {"data": 32, "context": 1, "tensor": 8, "pipeline": 1}, {"global": 512, "micro": 16}, "parameters"),
        ("Llama3.1-405B, FSDP8 TP8 PP8", {"data": 8, "context": 1, "tensor": 8, "pipeline": 8}, {"global": 256, "micro": 4}, "optimizer"),
        ("Llama3.1-405B, FSDP2 CP4 TP8", {"data": 2, "context": 4, "tensor": 8, "pipeline": 8}, {"global": 16, "micro": 1}, "optimizer"),
    ],
)
def test_degrees_of_torchtitan(name, parallel, batch, partition):
    keys = next(case for case in torchtitan.throughput_and_memory() if case.case.startswith(name)).experiments[0]
    assert {key: keys["parallel"][key] for key in parallel} == parallel
    assert {key: keys["batch"][key] for key in batch} == batch
    assert keys["strategy"]["partition"] == partition


def test_the_middle_layer_is_timed():
    """At fixed times a layer takes what they say, and its all-reduces of nothing nothing."""
    keys = {
        "model": {"layers": 3, "hidden": 64, "heads": 4}, "cluster": "ideal", "strategy": {"name": "standard"},
        "batch": {"global": 1, "sequence": 128}, "cost": {"forward": "2 s", "backward": "5 s"},
    }  # fmt: skip
    assert middle_layer_s(parsed(keys)) == {"layer_forward": 2.0, "layer_backward": 5.0}


def test_a_collective_takes_what_the_command_says(cli):
    case = next(case for case in nccl.curves() if case.case.startswith("H100 1 node") and case.case.endswith("16.8 MB"))
    shown = cli("collective", "--cluster", "dgx-h100", "--size", "16777216B", "--algorithm", "auto", "--json")
    assert case.predicted([]) == pytest.approx(json.loads(shown.out)["rows"][0]["time_s"] * 1e6)


def test_every_experiment_is_one():
    """Of each source the one with the largest batch, and that with the smallest."""
    for source in SOURCES:
        found = [keys for case in CASES if case.source == source for keys in case.experiments]
        for keys in sorted(found, key=lambda keys: keys["batch"]["global"])[:: max(1, len(found) - 1)]:
            parsed(keys)


def test_error():
    assert [error(2.0, 2.5), error(4.0, 3.0)] == [0.25, -0.25]
    assert [error(1.0, 1), error(1.0, 0), error(0.0, 1), error(0.0, 0)] == [0, -1, 1, 0]
