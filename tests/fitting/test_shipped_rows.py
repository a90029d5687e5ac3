"""The rows that come with the calibrations: those of the published measurements that may be fitted, and measured products."""

import pytest

from clustersim.cluster.gpus import FOLDER
from clustersim.compute.tables import read_kernels
from clustersim.document import Document
from clustersim.experiment import parse
from clustersim.fitting.rows import TimeOf, read_rows
from clustersim.published import dgx_cloud, megatron
from clustersim.published.case import CALIBRATION, DATA, rows

# FLOP of a step by arXiv 2104.04473, equation 3, over what is printed.
_PRINTED = {"1.7B": (137e12, 32), "3.6B": (138e12, 64), "7.5B": (142e12, 128), "1.2B on 1 GPU": (39e12, 1)}


def published(cases):
    return [case for case in cases if case.use == CALIBRATION]


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("A100-SXM4-80GB/megatron-2021", published(megatron.weak_scaling_2021())),
        ("A100-SXM4-40GB/megatron-2020", published(megatron.tensor_parallel_2020())[1:]),
        ("V100-SXM3-32GB/megatron-2020", published(megatron.tensor_parallel_2020())[:1]),
        ("V100-SXM3-32GB-H/megatron-2019", published(megatron.weak_scaling_2019())),
        ("H100-SXM5-80GB/megatron-2024", published(dgx_cloud.steps())),
    ],
)
def test_steps_are_those_of_the_published_cases(name, cases):
    measurements = read_rows(FOLDER / f"{name}.csv", None, None, None)
    assert f"{measurements.gpu.name}/{measurements.software}" == name and len(measurements.rows) == len(cases)
    for row, case in zip(measurements.rows, cases, strict=True):
        assert isinstance(row.subject, TimeOf) and row.subject.quantity == "step"
        published_one = parse(Document(case.experiments[0], "case"), DATA)
        assert parameters_of(measurements.experiments[row.subject.experiment]) == parameters_of(published_one)
        scale = {"s": 1, "ms": 1e-3}.get(case.unit)
        if scale is None:
            rate, gpus = _PRINTED[case.case]
            batch = case.experiments[0]["batch"]
            flops = megatron.flops_with_recompute(
                {key: str(value) for key, value in case.experiments[0]["model"].items()}, batch["global"], batch["sequence"]
            )
            assert row.measured_s == pytest.approx(flops / rate / gpus, rel=2e-4)
        else:
            assert row.measured_s == pytest.approx(case.measured * scale)


def parameters_of(experiment):
    names = (
        "model", "grid", "strategy", "sequence_parallel", "micro_batch", "sequence", "global_batch", "micro_batches", "precision",
        "recompute", "collectives",
    )  # fmt: skip
    return [getattr(experiment, name) for name in names], experiment.cluster.name


def test_layers_of_table_4():
    measurements = read_rows(FOLDER / "A100-SXM4-80GB" / "megatron-2022.csv", None, None, None)
    printed = [float(row[column]) for row in rows("korthikanti2022_layer_time_a100.csv") for column in ("fwd_ms", "bwd_ms")]
    assert [row.measured_s * 1e3 for row in measurements.rows] == pytest.approx(printed)
    assert [row.subject.quantity for row in measurements.rows] == ["layer_forward", "layer_backward"] * 5
    ways = [(experiment.recompute, experiment.sequence_parallel) for experiment in measurements.experiments]
    assert ways == [("none", False), ("none", True), ("full", False), ("selective", False), ("selective", True)]
    for experiment in measurements.experiments:
        assert (experiment.model.hidden, experiment.model.heads, experiment.micro_batch, experiment.sequence) == (6144, 64, 4, 2048)
        assert experiment.grid.tensor == experiment.grid.ranks == 8 and experiment.precision == "fp16"


@pytest.mark.parametrize(("gpu", "least", "most"), [("A100-SXM4-80GB", 17, 17), ("H100-SXM5-80GB", 60, 150), ("B200-186GB", 60, 150)])
def test_measured_products_lie_below_the_peak_and_above_half_of_it_where_large(gpu, least, most):
    measurements = read_rows(FOLDER / gpu / "matmul.csv", gpu, None, None)
    assert least <= len(measurements.rows) <= most and all(row.source for row in measurements.rows)
    kernels = [row.kernel for row in read_kernels(FOLDER / gpu / "matmul.csv")]
    assert len(set(kernels)) == len(kernels)
    for row in measurements.rows:
        reached = row.subject.kernel.flops / row.measured_s / measurements.gpu.peak_flop_s[row.subject.precision]
        assert 0 < reached < 0.95
        assert row.subject.kernel.flops < 2e11 or reached > 0.4
