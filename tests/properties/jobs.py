"""Whole experiments, drawn at random: model, cluster, degrees, strategy, batch, cost, and what goes wrong."""

import yaml
from hypothesis import HealthCheck, assume
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.schedule.strategy import PRESETS
from tests.helpers import parsed

NAMES = sorted(PRESETS)
CLUSTERS = ("dgx-a100", "pcie-ethernet", "dgx-h100-rail", "dgx-a100-fat-tree")
PARTITIONS = ("none", "optimizer", "gradients", "parameters")
FIXED = {"forward": "1 ms", "backward": "3 ms", "input": "1 ms", "weight": "2 ms"}
RANKS = 16
LENIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}


def often(usual, *others):
    """A choice that is ``usual`` half of the time."""
    return st.just(usual) | st.sampled_from(others)


@st.composite
def documents(draw):
    """An experiment file as a mapping: of at most 16 GPUs, 8 layers, 8 micro-batches, two steps."""
    pipeline = draw(st.sampled_from([1, 2, 4]))
    left = RANKS // pipeline
    degrees = {"pipeline": pipeline}
    for name in draw(st.permutations(["tensor", "context", "data"])):
        degrees[name] = draw(st.sampled_from([n for n in (1, 2, 4) if n <= left]))
        left //= degrees[name]
    experts = degrees["data"] > 1 and draw(often(False, True))
    if experts:
        degrees["expert"] = draw(st.sampled_from([n for n in (1, 2, 4) if n <= degrees["data"]]))
    degrees["order"] = draw(st.permutations(["tensor", "context", "data", "pipeline"]))
    degrees["sequence_parallel"] = degrees["tensor"] > 1 and draw(st.booleans())
    micro_batches = pipeline * draw(st.integers(1, 2)) if draw(st.booleans()) else draw(st.integers(1, 8))
    model = {"layers": 8, "hidden": draw(st.sampled_from([64, 1024])), "heads": 16, "vocab": 2048, "gated": draw(st.booleans())}
    return {
        "model": model | ({"experts": 4, "top_k": 2} if experts else {}),
        "cluster": draw(st.sampled_from(CLUSTERS)),
        "parallel": degrees,
        "strategy": draw(strategies(degrees)),
        "batch": {"global": micro_batches * degrees["data"], "micro": 1, "sequence": 128},
        "precision": "fp16",
        "recompute": draw(often("none", "selective", "full")),
        "steps": draw(often(1, 2)),
        "collectives": draw(often("auto", "multi-ring")),
        **draw(st.sampled_from([{}, {}, {"cost": "peak"}, {"cost": FIXED}])),
        **draw(often({}, {"network": {"bandwidth": "1 Gb/s"}}, {"network": {"latency": "100 us"}})),
        **draw(often({}, {"variability": draw(troubles(pipeline))})),
    }


@st.composite
def strategies(draw, degrees):
    partition = draw(often("none", *PARTITIONS))
    chosen = {
        "name": NAMES[draw(st.integers(0, 999)) % len(NAMES)],  # a choice out of many is mostly the first
        "partition": partition,
        "overlap": draw(often(True, False)),
        "prefetch": draw(often(1, 0, 2)),
        "offload": draw(often("none", "activations", "optimizer", "all")),
        **draw(often({}, {"sends": "blocking"}, {"receives": "late"})),  # both together may wait for each other for ever
        "scatter_gather": degrees["tensor"] > 1 and draw(often(False, True)),
        "async_tensor": degrees["tensor"] > 1 and draw(often(False, True)),
        "keep_recomputed": draw(often(False, True)),
    }
    copies = degrees["data"] * degrees["context"]
    if partition != "none" and copies > 2 and "expert" not in degrees and draw(st.booleans()):
        chosen["partition_group"] = 2
    if draw(often(False, True)):
        chosen["bucket"] = "20 MB"
    return chosen


@st.composite
def troubles(draw, pipeline):
    found = {"seed": draw(st.integers(0, 9)), "jitter": draw(st.sampled_from([0, 0.1]))}
    if draw(st.booleans()):
        found["slow_gpus"] = [{"rank": draw(st.integers(0, pipeline - 1)), "times": 1.5}]
    return found


def experiment(document):
    """The experiment of a mapping; what the product refuses, such as a schedule that takes no such numbers, is not drawn."""
    try:
        return parsed(yaml.safe_dump(document))
    except InputError:
        assume(False)
