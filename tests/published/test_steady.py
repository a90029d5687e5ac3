"""Steps of many micro-batches from two shorter ones are those of whole simulations."""

import pytest

from clustersim import document
from clustersim.experiment import parse
from clustersim.published.case import DATA
from clustersim.published.catalogue import cases_of
from clustersim.published.steady import figures, parts
from clustersim.simulation import simulate


def summary(keys):
    return simulate(parse(document.Document(keys, "published"), DATA)).summary


def job(pipeline, micro_batches, **strategy):
    return {
        "model": {"layers": 8, "hidden": 1024, "heads": 16, "vocab": 32000}, "cluster": "jean-zay-a100", "software": "megatron-2022",
        "parallel": {"data": 2, "pipeline": pipeline, "tensor": 2}, "strategy": strategy, "precision": "fp16", "recompute": "full",
        "batch": {"global": 4 * micro_batches, "micro": 2, "sequence": 1024},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "rounds"),
    [
        (job(4, 28, name="1f1b", stages=[2, 3, 2, 1], partition="optimizer", overlap=False, sends="blocking"), (8, 12)),
        (job(2, 14, name="interleaved-1f1b", chunks=2, scatter_gather=True, sends="blocking", overlap=False), (4, 6)),
        (job(4, 24, name="1f1b"), (8, 12)),
        (job(1, 9, name="1f1b", partition="optimizer", overlap=False), (2, 3)),
    ],
)
def test_the_whole_step(keys, rounds):
    short = parts(keys)
    assert tuple(part["batch"]["global"] // 4 for part in short) == rounds
    found, expected = figures(keys, [summary(part) for part in short]), summary(keys)
    assert found["step_time_s"] == pytest.approx(expected["step_time_s"], rel=1e-9)
    assert all(found[key] == expected[key] for key in ("ranks", "fits", "peak_memory_bytes"))


def test_few_micro_batches_and_other_schedules_are_simulated_whole():
    zero_bubble = next(case for case in cases_of(["zero-bubble-2024"])[0] if case.case == "1.5B, 64 micro-batches, ZB-2p").experiments[0]
    for keys in (job(4, 20, name="1f1b"), job(4, 28, name="zb-h1"), job(1, 9, name="standard"), zero_bubble):
        assert parts(keys) == (keys,)
        assert figures(keys, [{"step_time_s": 1.0, "mfu": 0.5}]) == {"step_time_s": 1.0, "mfu": 0.5}
