"""What the actions of a schedule say before any of them has a duration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby

from clustersim.planner.space import Candidate
from clustersim.schedule.actions import most_in_flight, single
from clustersim.schedule.strategy import PRESETS, build


@dataclass(frozen=True)
class Facts:
    """Of a schedule: by pipeline rank the most chunks of micro-batches in flight; for a layer of the first rank, at least so many stretches
    of forwards, and of backwards, each of which partitioned state moves for.
    """

    in_flight: tuple[int, ...]
    forward_runs: int
    backward_runs: int


def facts_of(candidate: Candidate, layers: int) -> Facts:
    """From the actions. ValueError when the schedule cannot have these numbers."""
    preset = replace(PRESETS[candidate.strategy], chunks=candidate.chunks)
    schedule = build(preset, layers, candidate.pipeline, candidate.micro_batches)
    runs = Counter(key for key, _ in groupby((one.kind, one.stage) for one in single(schedule.actions[0])))
    fewest = {kind: min((times for (own, _), times in runs.items() if own == kind), default=0) for kind in "FBW"}
    if preset.timing == "micro_batch":
        fewest = dict.fromkeys(fewest, candidate.micro_batches)
    return Facts(tuple(-(-most // schedule.slices) for most in most_in_flight(schedule)), fewest["F"], max(fewest["B"], fewest["W"]))
