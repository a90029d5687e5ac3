"""Root causes of waits, in pipelines and collectives with one slow rank; who is named, and that nobody is without reason."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.analysis.answer import analyze
from clustersim.analysis.answer_text import document, limits
from clustersim.engine.simulate import simulate
from clustersim.program.build import build_program
from clustersim.trace.trace import from_outcome
from tests.analysis.test_path import jobs
from tests.analysis.test_streams import trace
from tests.helpers import parsed, simulated, unit_cost

S = 10**12


def slowed(text, rank, factor):
    """The trace of a job one of whose ranks computes so many times as long."""
    program = build_program(parsed(text), fold=False)
    duration = np.where(program.rank == rank, program.duration_ps * factor, program.duration_ps).astype(np.int64)
    program = replace(program, duration_ps=duration)
    return from_outcome(program, simulate(program))


def charged(step, window=None):
    return analyze(step, window).ranks["waited_for_ps"].tolist()


UNIT = """
model: {{layers: {layers}, hidden: 64, heads: 4}}
cluster: ideal
parallel: {{pipeline: {pipeline}, data: {data}}}
strategy: {name}
batch: {{global: {batch}, micro: 1, sequence: 128}}
cost: {{forward: 1 s, backward: 2 s}}
"""


@pytest.mark.parametrize("name", ["1f1b", "gpipe"])
def test_equals_are_charged_for_their_own_stage_and_none_is_named(name):
    """p = 4, F = 1, B = 2: rank r waits 3 (F + B) for each of the ranks behind it."""
    found = analyze(unit_cost(4, 4, 8, name, forward=1, backward=2).trace)
    assert found.ranks["waited_for_ps"].tolist() == [0, 3 * S, 6 * S, 9 * S]
    assert found.ranks["compute_over_median"].tolist() == [1, 1, 1, 1]
    assert "rank" not in limits(found)


def test_a_slow_rank_of_a_pipeline():
    """p = 4, m = 8, F = 1, B = 2, twice that on rank 2, all forwards first.

    Rank 2 forwards from 2 to 18, rank 3 waits 1 before 7 of its own. Rank 2 waits from 18 to 21 for the F and B of rank 3, and computes
    backward until 53. Ranks 1 and 0 wait 16 and 19 for their first B, of which 3 each are of rank 3, and 3 of rank 0's of rank 1; then
    2 before 7 of them. The step is 57; rank 2 is the cause of 7 + 13 + 13 + 14 + 14.
    """
    found = analyze(slowed(UNIT.format(layers=4, pipeline=4, data=1, name="gpipe", batch=8), 2, 2))
    assert found.ranks["waited_for_ps"].tolist() == [0, 3 * S, 61 * S, 9 * S]
    assert limits(found) == (
        "36 % of the step on the other ranks is waiting for rank 2, which computes 100 % longer than its peers (median) for the same"
        " work; 53 % is compute"
    )
    rows = {row["rank"]: row for row in document(found)["stragglers"]}
    assert (rows[2]["compute_over_median"], rows[2]["idle_of_others_s"]) == (2, 61)
    assert rows[3]["compute_over_median"] == 1


def test_a_slow_rank_that_is_a_small_part_of_the_bubble():
    """The same with two micro-batches and 1.5 times as long: it is said, after the bubble."""
    words = limits(analyze(slowed(UNIT.format(layers=4, pipeline=4, data=1, name="gpipe", batch=2), 1, 1.5)))
    assert " of the step is idle in the pipeline (" in words
    assert "on the other ranks waiting for rank 1, which computes 50 % longer" in words


def test_a_slow_rank_of_a_steady_pipeline():
    """p = 8, m = 32: with 3.9 instead of 3 s a micro-batch on rank 6 each other rank waits at least 0.9 s for all but the first 8."""
    found = analyze(slowed(UNIT.format(layers=8, pipeline=8, data=1, name="1f1b", batch=32), 6, 1.3))
    waited = found.ranks["waited_for_ps"]
    assert waited[6] > 7 * 24 * 0.9 * S and waited[6] > 10 * waited.drop(6).max()
    assert "waiting for rank 6, which computes 30 % longer" in limits(found)


def test_a_slow_rank_among_replicas():
    """Compute is 2 layers x 2 micro-batches x 3 s = 12, and 18 on rank 2, for which the last reduction waits: no drain."""
    found = analyze(slowed(UNIT.format(layers=2, pipeline=1, data=4, name="standard", batch=8), 2, 1.5))
    assert found.ranks["waited_for_ps"].tolist() == [0, 0, 18 * S, 0]
    assert found.causes["peer"].tolist() == [6 * S, 6 * S, 0, 6 * S] and not found.causes["drain"].any()
    assert limits(found) == (
        "compute: 75 % of the step is compute; the largest loss is 33 % on the other ranks waiting for rank 2, which computes 50 % longer"
        " than its peers (median) for the same work"
    )


def test_more_layers_by_design_are_not_slow():
    found = analyze(unit_cost(4, 2, 4, "{name: standard, stages: [1, 3]}", forward=1, backward=2).trace)
    assert found.ranks["compute_over_median"].tolist() == [1, 1]
    assert found.ranks["waited_for_ps"][1] > 0 and "rank" not in limits(found)


def test_several_short_waits_hand_on_a_long_one():
    """Rank 1 waits for rank 2 twice, 2 each; of the 7 that rank 0 waits for rank 1 then, 4 are of rank 2."""
    step = trace(
        (1, "compute", "forward", 0, 2, 0, ""), (1, "tensor", "tensor", 4, 4, 2, "1-2"), (1, "compute", "forward", 4, 5, 0, ""),
        (1, "tensor", "tensor", 7, 7, 2, "1-2"), (1, "compute", "forward", 7, 8, 0, ""), (1, "send:0", "send", 8, 8, 0, "1,0"),
        (0, "recv:1", "recv", 8, 8, 7, "1,0"), (0, "compute", "forward", 8, 9, 0, ""), (0, "compute", "forward", 0, 1, 0, ""),
        (2, "compute", "forward", 0, 4, 0, ""), (2, "tensor", "tensor", 4, 4, 0, "1-2"), (2, "compute", "forward", 4, 7, 0, ""),
        (2, "tensor", "tensor", 7, 7, 0, "1-2"),
        dependencies=[(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 8), (7, 6), (10, 9), (11, 10), (12, 11)],
    )  # fmt: skip
    assert charged(step) == [0, 3, 8]


def test_what_the_one_who_waits_had_waited_for_too_is_not_handed_on():
    """Both wait for rank 2 until 6; then rank 0 waits 3 more for rank 1, which is rank 1's own."""
    step = trace(
        (0, "compute", "forward", 0, 1, 0, ""), (1, "compute", "forward", 0, 1, 0, ""), (2, "compute", "forward", 0, 6, 0, ""),
        *((rank, "tensor", "tensor", 6, 6, wait, "0-2") for rank, wait in ((0, 5), (1, 5), (2, 0))),
        (0, "compute", "forward", 6, 7, 0, ""), (1, "compute", "forward", 6, 10, 0, ""),
        (0, "tensor", "tensor", 10, 10, 3, "0-1"), (1, "tensor", "tensor", 10, 10, 0, "0-1"), (0, "compute", "forward", 10, 11, 0, ""),
        dependencies=[(3, 0), (4, 1), (5, 2), (6, 3), (7, 4), (8, 6), (9, 7), (10, 8)],
    )  # fmt: skip
    assert charged(step) == [0, 3, 10]


def measured(*rows):
    step = trace(*rows)
    return replace(step, ops=step.ops.assign(bytes=0))


MEASURED = measured(
    (2, "7", "kernel", 7, 9, 0, ""), (2, "9", "all_reduce", 9, 10, 0, "h"), (1, "7", "kernel", 0, 2, 0, ""),
    (1, "9", "all_reduce", 2, 10, 7, "h"), (1, "9", "all_gather", 10, 12, 0, "g"), (0, "7", "kernel", 0, 1, 0, ""),
    (0, "9", "all_gather", 1, 12, 9, "g"), (0, "7", "kernel", 3, 5, 0, ""),
)  # fmt: skip


def test_measured_kernels():
    """Rank 2 starts late: rank 1 waits 7 in its kernel for it, rank 0 then 9 for rank 1, 2 of them under compute: all 7 are of rank 2."""
    assert charged(MEASURED) == [0, 0, 14]
    assert charged(MEASURED, (0, 6)) == [0, 0, 4 + 3]
    assert "waiting for rank 2, which comes last to collectives" in limits(analyze(MEASURED))


def test_ranks_that_take_turns_are_not_named():
    """Each comes last to one of two collectives, 4 late."""
    step = measured(
        (0, "9", "all_reduce", 2, 8, 4, "g"), (1, "9", "all_reduce", 6, 8, 0, "g"),
        (0, "7", "kernel", 8, 14, 0, ""), (1, "7", "kernel", 8, 10, 0, ""),
        (0, "9", "all_reduce", 14, 16, 0, "g"), (1, "9", "all_reduce", 10, 16, 4, "g"),
    )  # fmt: skip
    assert charged(step) == [4, 4]
    assert "comes last" not in limits(analyze(step))


@settings(max_examples=15)
@given(st.data())
def test_no_wait_is_lost(data):
    text, pipeline = data.draw(jobs())
    fold = data.draw(st.booleans())
    step = simulated(text, fold).trace if fold else slowed(text, data.draw(st.integers(0, pipeline - 1)), 1.5)
    found = analyze(step)
    waits = found.causes[["data", "peer", "contention", "dependency"]].to_numpy().sum()
    assert found.ranks["waited_for_ps"].min() >= 0
    assert found.ranks["waited_for_ps"].sum() == pytest.approx(waits, abs=len(found.ranks))
