"""Makespans that have a closed form, to the picosecond."""

import pytest

from tests.helpers import unit_cost

S = 10**12
STANDARD = ["{name: standard}", "{name: standard, order: gpipe}"]

# L, p, m, GPipe = 1F1B, contiguous LGA, MPP at t_f = 1 s, t_b = 3 s, worked out by hand from the formulas.
TABLE = [
    (16, 4, 8, 176, 428, 140),
    (16, 4, 2, 80, 116, 68),
    (16, 4, 4, 112, 220, 76),
    (16, 4, 16, 304, 844, 268),
    (12, 4, 6, 108, 228, 84),
    (32, 8, 8, 240, 828, 156),
    (160, 5, 5, 1152, 3136, 656),
]


@pytest.mark.parametrize(("layers", "p", "m", "standard", "contiguous", "mpp"), TABLE)
def test_table(layers, p, m, standard, contiguous, mpp):
    for strategy in STANDARD:
        assert unit_cost(layers, p, m, strategy).trace.makespan_ps == standard * S
    assert unit_cost(layers, p, m, "lga").trace.makespan_ps == contiguous * S
    assert unit_cost(layers, p, m, "mpp").trace.makespan_ps == mpp * S


def test_one_layer_a_rank_is_the_same_everywhere():
    assert unit_cost(160, 160, 172, "standard").trace.makespan_ps == 1324 * S
    assert unit_cost(160, 160, 172, "mpp").trace.makespan_ps == 1324 * S


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 7])
def test_formulas_over_a_grid(p, k, m):
    forward, backward = 2, 5
    both = forward + backward
    layers = p * k
    for strategy in STANDARD:
        run = unit_cost(layers, p, m, strategy, forward=forward, backward=backward)
        assert run.trace.makespan_ps == (m + p - 1) * k * both * S
    lga = unit_cost(layers, p, m, "lga", forward=forward, backward=backward)
    assert lga.trace.makespan_ps == (p * (k - 1) * m + m + p - 1) * both * S
    mpp = unit_cost(layers, p, m, "mpp", forward=forward, backward=backward)
    assert mpp.trace.makespan_ps == ((k - 1) * max(p, m) + m + p - 1) * both * S


def test_modular_with_several_layers_a_stage_is_breadth_first():
    # v chunks, m a multiple of p: m(F+B) + (p-1)(F+B)/v with F+B = 4 layers x 4 s.
    run = unit_cost(16, 4, 8, "{name: mpp, chunks: 2}")
    assert run.trace.makespan_ps == (8 * 16 + 3 * 16 // 2) * S


@pytest.mark.parametrize(
    ("strategy", "p", "v", "m", "delay_ms", "expected_ms"),
    [
        # F = 1, B = 2 for a whole rank and micro-batch.
        ("{name: standard, order: gpipe}", 4, 1, 8, 0, 33_000),
        ("{name: standard, order: gpipe}", 4, 1, 8, 250, 34_500),
        ("{name: standard, order: gpipe}", 4, 1, 8, 500, 36_000),
        ("standard", 4, 1, 8, 0, 33_000),
        ("standard", 4, 1, 8, 250, 37_000),
        ("standard", 4, 1, 8, 500, 41_000),
        ("{name: mpp, chunks: 2}", 4, 2, 8, 0, 28_500),
        ("{name: mpp, chunks: 2}", 4, 2, 8, 250, 30_000),
        ("{name: mpp, chunks: 2}", 4, 2, 8, 500, 31_500),
        ("standard", 8, 1, 16, 0, 69_000),
        ("standard", 8, 1, 16, 250, 79_000),
        ("standard", 8, 1, 16, 500, 89_000),
        ("standard", 4, 1, 2, 0, 15_000),
        ("{name: standard, order: gpipe}", 4, 1, 2, 0, 15_000),
    ],
)
def test_delay_that_does_not_block_the_sender(strategy, p, v, m, delay_ms, expected_ms):
    run = unit_cost(p * v, p, m, strategy, forward=1 / v, backward=2 / v, extra=f"link_delay: {delay_ms} ms")
    assert run.trace.makespan_ps == expected_ms * S // 1000


def test_delays_overlap_on_one_stream():
    # A chunk takes 0.25 s and its message 3 s: later messages leave before the first arrives.
    # Forward: 4 micro-batches, then the last arrives 3 s later and takes 0.25 s; the backward the same way back.
    run = unit_cost(2, 2, 4, "{name: standard, order: gpipe}", forward=0.25, backward=0.5, extra="link_delay: 3 s")
    assert run.trace.makespan_ps == (4 * 250 + 3000 + 250 + 4 * 500 + 3000 + 500) * 10**9


@pytest.mark.parametrize(("p", "m", "bubble"), [(4, 8, 0.272727), (8, 16, 0.304348), (4, 2, 0.6)])
def test_bubble_in_both_definitions(p, m, bubble):
    summary = unit_cost(p, p, m, "standard", forward=1, backward=2).summary
    assert summary["bubble_of_total"] == pytest.approx(bubble, abs=5e-7)
    assert summary["bubble_of_ideal"] == pytest.approx((p - 1) / m)
    assert summary["ideal_compute_s"] == pytest.approx(3 * m)
