"""Bytes by kind against the formulas of the papers."""

import pytest

from tests.helpers import simulated

LAYERS, HIDDEN, VOCAB, SEQUENCE, MICRO, ELEMENT = 8, 1024, 4096, 512, 2, 2
BSH = MICRO * SEQUENCE * HIDDEN * ELEMENT
# P = 12 l h^2 (1 + 13/(12h) + (V+s)/(12 l h)), and the final norm's 2h
PARAMETERS = 12 * LAYERS * HIDDEN**2 + 13 * LAYERS * HIDDEN + (VOCAB + SEQUENCE) * HIDDEN + 2 * HIDDEN


def run(parallel, strategy="standard", m=4, recompute="none", data=1, fold=True):
    return simulated(
        f"""
model: {{layers: {LAYERS}, hidden: {HIDDEN}, heads: 16, vocab: {VOCAB}}}
cluster: dgx-a100
parallel: {parallel}
strategy: {strategy}
collectives: multi-ring
batch: {{global: {MICRO * m * data}, micro: {MICRO}, sequence: {SEQUENCE}}}
recompute: {recompute}
""",
        fold,
    )


def sent(*arguments, **more):
    return run(*arguments, **more).summary["communication_bytes"]


@pytest.mark.parametrize(("recompute", "all_reduces"), [("none", 4), ("selective", 4), ("full", 6)])
@pytest.mark.parametrize("t", [2, 4, 8])
def test_tensor_parallelism_has_four_or_six_all_reduces_a_layer(recompute, all_reduces, t):
    m = 4
    done = run(f"{{tensor: {t}}}", m=m, recompute=recompute)
    assert int((done.trace.ops["kind"] == "tensor").sum()) == all_reduces * LAYERS * m
    by_rank = all_reduces * LAYERS * m * BSH * 2 * (t - 1) // t
    assert done.summary["communication_bytes"] == {"tensor": t * by_rank, "data": 0, "pipeline": 0}


@pytest.mark.parametrize("p", [2, 4])
def test_pipeline_crosses_every_boundary_both_ways(p):
    m = 4
    assert sent(f"{{pipeline: {p}}}")["pipeline"] == 2 * (p - 1) * m * BSH
    assert sent(f"{{pipeline: {p}}}", "mpp")["pipeline"] == 2 * (LAYERS - 1) * m * BSH
    assert sent(f"{{pipeline: {p}}}", "lga")["pipeline"] == 2 * (p - 1) * m * BSH


@pytest.mark.parametrize("n", [2, 4, 16])
def test_data_parallelism_moves_every_gradient_once(n):
    expected = 2 * (n - 1) * PARAMETERS * ELEMENT  # n ranks, each 2(n-1)/n of it
    for strategy in ("standard", "lga", "{name: lga, partition: optimizer}"):
        assert sent(f"{{data: {n}}}", strategy, data=n)["data"] == pytest.approx(expected, abs=2 * n * LAYERS)


@pytest.mark.parametrize("n", [2, 4])
def test_partitioned_parameters_move_three_halves_as_often_as_they_are_used(n):
    m = 4
    once = 3 * (n - 1) * PARAMETERS * ELEMENT
    often = sent(f"{{data: {n}}}", "{name: standard, partition: parameters}", data=n)["data"]
    layered = sent(f"{{data: {n}}}", "{name: lga, partition: parameters}", data=n)["data"]
    assert often == pytest.approx(m * once, abs=3 * m * n * LAYERS)
    assert layered == pytest.approx(once, abs=3 * n * LAYERS)


def test_all_three_at_once():
    t, p, d, m = 2, 2, 2, 4
    totals = sent(f"{{tensor: {t}, pipeline: {p}, data: {d}}}", "mpp", data=d)
    assert totals["tensor"] == 4 * LAYERS * m * BSH * 2 * (t - 1) * d
    assert totals["pipeline"] == 2 * (LAYERS - 1) * m * BSH * t * d


def test_bytes_on_links_equal_bytes_sent():
    # Two GPUs on one NVSwitch: a message crosses two links, up and down.
    done = run("{tensor: 2}")
    # Each transfer is rounded to a picosecond, in which a link of 240 GB/s carries 0.24 B.
    rounding = 4 * 4 * LAYERS * 2 * 0.24
    assert done.summary["links"]["nvlink"]["bytes"] == pytest.approx(
        2 * done.summary["communication_bytes"]["tensor"], rel=0, abs=rounding
    )


def test_scatter_gather_sends_each_tensor_rank_its_part():
    t, p, m = 4, 2, 4
    done = run(f"{{tensor: {t}, pipeline: {p}}}", "{name: mpp, scatter_gather: true}", m=m)
    boundaries = 2 * (LAYERS - 1) * m
    assert done.summary["communication_bytes"]["pipeline"] == boundaries * BSH
    # Beside the all-reduces, each of t ranks sends (t-1)/t of every arriving message on to the others.
    all_reduces = 4 * LAYERS * m * BSH * 2 * (t - 1)
    assert done.summary["communication_bytes"]["tensor"] == all_reduces + boundaries * BSH * (t - 1)


def test_a_switch_that_reduces_is_sent_the_payload_once():
    m, t = 2, 8
    done = simulated(
        f"""
model: {{layers: {LAYERS}, hidden: {HIDDEN}, heads: 16, vocab: {VOCAB}}}
cluster: dgx-h100
parallel: {{tensor: {t}}}
strategy: standard
batch: {{global: {MICRO * m}, micro: {MICRO}, sequence: {SEQUENCE}}}
collectives: in-switch
"""
    )
    messages = 4 * LAYERS * m * t
    assert done.summary["communication_bytes"]["tensor"] == messages * BSH
    # Each goes up one link and comes down another; protocols may add to the bytes on the wire, at most twice.
    on_links = done.summary["links"]["nvlink"]["bytes"]
    assert 2 * messages * BSH <= on_links + messages and on_links <= 4 * messages * BSH + messages
