"""All sources, by name.

>>> list(SOURCES)[:2], len(cases_of(["megatron-2020"])[0])
(['nccl', 'korthikanti-2022-layer'], 8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from clustersim.published import bloom, dgx_cloud, korthikanti, llm_foundry, megatron, nccl, torchtitan, zero_bubble
from clustersim.published.case import Case, LeftOut

SOURCES: Mapping[str, Callable[[], Sequence[Case | LeftOut]]] = MappingProxyType(
    {
        "nccl": nccl.curves,
        "korthikanti-2022-layer": korthikanti.layer_time,
        "korthikanti-2022": korthikanti.iteration_time,
        "megatron-2019": megatron.weak_scaling_2019,
        "megatron-2020": megatron.tensor_parallel_2020,
        "megatron-2021": megatron.weak_scaling_2021,
        "zero-bubble-2024": zero_bubble.schedules,
        "dgx-cloud": dgx_cloud.steps,
        "llm-foundry": llm_foundry.throughput,
        "torchtitan": torchtitan.throughput_and_memory,
        "bloom": bloom.grid,
    }
)


def cases_of(sources: Sequence[str]) -> tuple[list[Case], list[LeftOut]]:
    """The cases of these sources, and what of them is left out."""
    found = [each for source in sources for each in SOURCES[source]()]
    return [each for each in found if isinstance(each, Case)], [each for each in found if isinstance(each, LeftOut)]
