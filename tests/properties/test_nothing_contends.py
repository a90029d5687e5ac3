"""Where no two transfers meet on a link, a faster one never makes a step longer, nor do fewer micro-batches."""

from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustersim.engine.simulate import simulate
from clustersim.program.build import build_program
from tests.properties.jobs import LENIENT, documents, experiment

# Two stages, whose every GPU has one peer; or one group of ranks, in which one collective follows another.
ALONE = ({"pipeline": 2}, {"data": 4}, {"tensor": 4}, {"tensor": 4, "sequence_parallel": True})
SPEEDS = (400, 200, 100, 10, 1)


def alone(document, degrees, micro_batches, bandwidth):
    """The job on one node and these degrees, without what would meet: experts, traffic of the host."""
    strategy = {key: value for key, value in document["strategy"].items() if key != "partition_group"}
    if "tensor" not in degrees:
        strategy |= {"async_tensor": False, "scatter_gather": False}
    kept = {key: value for key, value in document.items() if key not in ("variability", "network")}
    return kept | {
        "model": {key: value for key, value in document["model"].items() if key not in ("experts", "top_k")},
        "cluster": "dgx-a100",
        "parallel": degrees,
        "strategy": strategy | {"offload": "none"},
        "batch": document["batch"] | {"global": micro_batches * degrees.get("data", 1)},
        "nvlink": {"bandwidth": f"{bandwidth} Gb/s"},
    }


def makespan_ps(document):
    return int(simulate(build_program(experiment(document), fold=False)).end_ps.max())


@settings(max_examples=20, **LENIENT)
@given(documents(), st.sampled_from(ALONE), st.integers(1, 4), st.sampled_from([*pairwise(SPEEDS)]))
def test_slower_links_and_more_micro_batches_never_make_a_step_shorter(document, degrees, pairs, speeds):
    assume(degrees.keys() <= {"pipeline"} or document["strategy"]["name"] not in ("dualpipe", "chimera"))  # which need several stages
    fast, slow = (makespan_ps(alone(document, degrees, 2 * pairs, speed)) for speed in speeds)
    more = makespan_ps(alone(document, degrees, 2 * pairs + 2, speeds[0]))
    assert 0 < fast <= slow and fast <= more
