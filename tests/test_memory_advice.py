"""What to change where a job does not fit: the changes that are tried, and the sentence."""

import json

from clustersim.commands.advice import changes, memory_advice
from clustersim.errors import InputError
from tests.helpers import parsed

GB = 10**9


def job(keys=""):
    return parsed(f"""
model: {{layers: 8, hidden: 64, heads: 4, vocab: 10}}
cluster: dgx-a100
parallel: {{data: 4, tensor: 2}}
batch: {{global: 8, micro: 2, sequence: 128}}
strategy: {{name: standard, partition: gradients}}
cost: peak
{keys}
""")


def advice(needs, experiment=None):
    """``needs``: GB by the overrides, the most specific first; what is not in it cannot be loaded. 80 GB are there."""

    def load(overrides):
        if tuple(overrides) not in needs:
            raise InputError("cannot be")
        return tuple(overrides)

    def summary_of(overrides):
        return {"peak_memory_bytes": (needs[overrides] - 1) * GB, "reserve_bytes": GB, "fits": needs[overrides] <= 80}

    return memory_advice(experiment or job(), load, summary_of)


FULL, MICRO, PARAMETERS = "recompute=full", "batch.micro=1", "strategy.partition=parameters"


def test_what_is_tried_follows_the_job():
    tried = [change.overrides for change in changes(job())]
    assert tried == [
        ("parallel.sequence_parallel=true",), ("recompute=selective",), (PARAMETERS,), (FULL,), (MICRO,),
        ("parallel.pipeline=2", "parallel.data=2"), ("parallel.tensor=4", "parallel.data=2"),
        ("strategy.offload=optimizer",), ("strategy.offload=activations",),
    ]  # fmt: skip
    assert (FULL,) not in [change.overrides for change in changes(job("recompute: full"))]


def test_the_first_two_that_fit():
    said = advice({(PARAMETERS,): 90, (FULL,): 70, (MICRO,): 80, ("strategy.offload=optimizer",): 10})
    assert said == "It fits with --set recompute=full (70 GB (65.19 GiB)), or with --set batch.micro=1 (80 GB (74.51 GiB))."


def test_several_together_the_most_effective_first():
    said = advice({(FULL,): 90, (MICRO,): 85, (MICRO, FULL): 60})
    assert said == "No single change is enough; it fits with --set batch.micro=1 --set recompute=full (60 GB (55.88 GiB))."


def test_changes_of_one_key_exclude_each_other_and_what_does_not_help_is_left_out():
    halves = ("parallel.pipeline=2", "parallel.data=2"), ("parallel.tensor=4", "parallel.data=2")
    said = advice({halves[0]: 95, halves[1]: 90, (MICRO,): 120, (*halves[1], MICRO): 91})
    more = "use more GPUs, or GPUs with more memory."
    assert said == f"Even --set parallel.tensor=4 --set parallel.data=2 leaves 90 GB (83.82 GiB) a GPU: {more}"
    assert advice({}) == f"Nothing that was tried makes it fit: {more}"


def test_run_says_it(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.yaml").write_text(
        "{model: llama3-8b, cluster: dgx-h100, parallel: {data: 8}, strategy: standard,"
        " batch: {global: 8, sequence: 1024}, cost: peak, recompute: full}"
    )
    result = cli("run", "e.yaml", "--no-plot", "--json", "-o", "out")
    summary = json.loads(result.out)
    # 16 bytes of each of 8.03e9 parameters are more than 79 GiB; 4 + 12/8 are not.
    assert summary["fits"] is False and summary["memory_advice"].startswith("It fits with --set strategy.partition=optimizer (")
