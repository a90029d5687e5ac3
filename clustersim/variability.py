"""What is not as it should be: noise, slow GPUs, slow and failed links. All of it follows from the seed, ranks and ops alone.

>>> from clustersim import document
>>> read = document.loads("variability: {jitter: 0.05, slow_gpus: [{rank: 6, times: 1.3}]}", "example.yaml")
>>> read_variability(read.section("", ("variability",)), ranks=8)
Variability(seed=0, jitter=0.05, slow_gpus=((6, 1.3),), slow_links=(), failed_links=())
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.cluster.explicit import items
from clustersim.document import Section, shown
from clustersim.hashing import hashed

KEYS = ("seed", "jitter", "slow_gpus", "slow_links", "failed_links")
_MOST_TIMES = 1000.0


@dataclass(frozen=True)
class Variability:
    """``jitter``: sigma of the log-normal factor, of mean 1, on the time of every compute op. ``slow_gpus``: by rank, how many times as
    long its compute takes. ``slow_links``: by name, the part of its capacity that a link has left. ``failed_links``: names.
    """

    seed: int = 0
    jitter: float = 0.0
    slow_gpus: tuple[tuple[int, float], ...] = ()
    slow_links: tuple[tuple[str, float], ...] = ()
    failed_links: tuple[str, ...] = ()


NONE = Variability()


def read_variability(top: Section, ranks: int) -> Variability:
    """The section ``variability``; InputError with the place for a rank that is none of so many, or a number that makes no sense."""
    section = top.section("variability", KEYS)
    slow_gpus: dict[int, float] = {}
    if "slow_gpus" in section:
        for item in items(section, "slow_gpus", ("rank", "times"), "{rank: 6, times: 1.3}"):
            rank = item.integer("rank", minimum=0, maximum=ranks - 1)
            if rank in slow_gpus:
                item.error("rank", f"{rank} is given twice; allowed: once a rank")
            slow_gpus[rank] = item.number("times", high=_MOST_TIMES)
    slow_links: dict[str, float] = {}
    if "slow_links" in section:
        for item in items(section, "slow_links", ("link", "capacity"), "{link: node0/nic0>network, capacity: 0.5}"):
            name = item.text("link", expected="the name of a link")
            if name in slow_links:
                item.error("link", f"{name} is given twice; allowed: once a link")
            slow_links[name] = item.number("capacity")
    failed = section.raw("failed_links", [])
    if not isinstance(failed, list) or not all(isinstance(name, str) for name in failed):
        section.error("failed_links", f"expected a list of names of links, for example [node0/nic0>network], got {shown(failed)}")
    return Variability(
        seed=section.integer("seed", 0, minimum=0, maximum=2**63 - 1),
        jitter=section.number("jitter", 0.0, closed=True),
        slow_gpus=tuple(sorted(slow_gpus.items())),
        slow_links=tuple(slow_links.items()),
        failed_links=tuple(dict.fromkeys(failed)),
    )


def noise(seed: int, sigma: float, *key: np.ndarray) -> np.ndarray:
    """Log-normal factors of mean 1, each a function of the seed and its ``key`` (columns of integers).

    >>> column = np.arange(200_000)
    >>> factors = noise(1, 0.1, column)
    >>> round(float(factors.mean()), 3), round(float(np.log(factors).std()), 3)
    (1.0, 0.1)
    """
    state = hashed(np.full(len(key[0]), seed, dtype=np.uint64))
    for column in key:
        state = hashed(state + column.astype(np.int64).astype(np.uint64))
    first, second = (_unit(value) for value in (state, hashed(state)))
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)  # Box and Muller, Ann. Math. Stat. 29, 1958
    return np.exp(sigma * normal - sigma**2 / 2)


def _unit(values: np.ndarray) -> np.ndarray:
    """Above 0 and below 1."""
    return ((values >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
