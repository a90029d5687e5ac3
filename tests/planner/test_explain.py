"""Why a plan lost, against figures worked out by hand."""

from clustersim.commands.plan import _runner_up
from clustersim.planner.explain import lost_by
from clustersim.planner.question import read_question
from clustersim.planner.scaling_laws import Training
from clustersim.planner.search import Found
from clustersim.planner.space import Candidate


def plan(micro_batches, step_s, data=4):
    """4 GPUs; a step of compute alone."""
    row = {"step_time_s": step_s, "ideal_compute_s": step_s, "exposed_communication_s": 0.0, "idle_s": 0.0}
    return Found(Candidate(data, 1, 1, 1, 1, 1, micro_batches, "standard", 1, False), 0.0, row)


def test_a_larger_batch_needs_more_sequences_in_all():
    """100 + 8000/B steps: 1,100 of 8 sequences, 600 of 16. Twice the step for twice the batch is 600 x 2 / 1,100 times as long."""
    law = Training(100.0, 8000.0)
    assert lost_by(plan(4, 2.0), plan(2, 1.0), law) == "+9.1 % of the step: more data to train on +90.91 ms"
    assert lost_by(plan(4, 2.0), plan(2, 1.0), law, per_gpu=True) == "+9.1 % of the GPU time: more data to train on +90.91 ms"
    assert lost_by(plan(4, 2.0), plan(2, 1.0), Training(0.0, 8000.0)) == "as fast"  # so many sequences whatever the batch


def test_gpu_time_counts_the_gpus():
    """Half the GPUs take 3 s for a step of 2 s: 1.5 times as long, 0.75 of the GPU time."""
    tokens = Training(0.0, 8000.0)
    half, whole = plan(4, 3.0, data=2), plan(2, 2.0)
    assert lost_by(half, whole, tokens) == "+50 % of the step: more compute on fewer GPUs +1 s"
    assert lost_by(whole, half, tokens, per_gpu=True) == "+33 % of the GPU time: more compute +1 s"


def test_behind_runners_up_that_are_as_fast_the_first_that_is_not_is_named():
    asked = read_question("x-32", "paper-a100", gpus=4, batch=8, tokens=1e9)
    best, slower = plan(2, 1.0), plan(2, 1.25)
    assert _runner_up(asked, [best, plan(2, 1.0), slower]) == "as fast; the first that is not: +25 % of the step: more compute +250 ms"
    assert _runner_up(asked, [best, slower]) == "+25 % of the step: more compute +250 ms"
    assert _runner_up(asked, [best, plan(2, 1.0)]) == "as fast"
