"""Steps of many micro-batches from two shorter ones.

Under 1F1B, interleaved or not, each further round of p micro-batches (p stages) makes a step longer by the same time, once the pipeline is
full, and needs no more memory. So a step of more than 5p is computed from those of 2p and 3p; the tests hold it to whole simulations.

>>> keys = {"parallel": {"pipeline": 4}, "strategy": {"name": "1f1b"}, "batch": {"global": 100, "micro": 1}}
>>> [part["batch"]["global"] for part in parts(keys)]
[8, 12]
>>> short, longer = ({"step_time_s": time, "fits": True, "ranks": 4, **dict.fromkeys(_MEMORY, 9)} for time in (3.0, 4.0))
>>> figures(keys, [short, longer])["step_time_s"]
26.0
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.published.case import Keys, Summary

_LINEAR = ("1f1b", "interleaved-1f1b")
_SHORT, _LONGER, _MANY = 2, 3, 5  # rounds
_MEMORY = ("peak_memory_bytes", "reserved_memory_bytes", "used_memory_bytes")
_KEPT = ("ranks", "fits", *_MEMORY)


def parts(keys: Keys) -> tuple[Keys, ...]:
    """The experiments to simulate for one: itself, or the same with 2p and with 3p micro-batches."""
    stages, passes = _counts(keys)
    if keys["strategy"]["name"] not in _LINEAR or passes <= _MANY * stages:
        return (keys,)
    batch = keys["batch"]
    return tuple({**keys, "batch": {**batch, "global": batch["global"] // passes * rounds * stages}} for rounds in (_SHORT, _LONGER))


def figures(keys: Keys, summaries: Sequence[Summary]) -> Summary:
    """The summary of an experiment from those of its :func:`parts`; of two only the step time, ranks, peak memory and whether it fits."""
    if len(summaries) == 1:
        return summaries[0]
    short, longer = summaries
    stages, passes = _counts(keys)
    of_a_round = longer["step_time_s"] - short["step_time_s"]
    return {**{key: longer[key] for key in _KEPT}, "step_time_s": longer["step_time_s"] + of_a_round * (passes / stages - _LONGER)}


def _counts(keys: Keys) -> tuple[int, int]:
    """Stages, and micro-batches of a replica."""
    parallel, batch = keys["parallel"], keys["batch"]
    return parallel.get("pipeline", 1), batch["global"] // (batch.get("micro", 1) * parallel.get("data", 1))
