"""What is asked of the planner, read and checked: model, cluster, limits, and what may be combined.

>>> asked = read_question("x-160", "paper-a100", batch="critical", cost="peak")
>>> asked.space.batch, asked.space.tensor, round(asked.training.steps(asked.training.critical_batch))
((2393, 2417), (1, 2, 4, 8, 16), 100000)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clustersim import units
from clustersim.cluster.spec import Cluster
from clustersim.document import Document, clipped, nearest, shown
from clustersim.errors import InputError
from clustersim.experiment import SHORT_FORMS, Experiment, parse
from clustersim.model.flops import RECOMPUTE
from clustersim.model.spec import Model, embedding_parameters, head_parameters
from clustersim.planner.memory_bound import layer_bytes
from clustersim.planner.scaling_laws import LAWS, Prices, Training, bill
from clustersim.planner.search import Limits, Score
from clustersim.planner.space import Candidate, Space, divisors
from clustersim.read_grid import MAX_GPUS
from clustersim.schedule.strategy import OFFLOADS, PARTITIONS, PRESETS
from clustersim.sweeps.points import Base

OBJECTIVES = ("time", "gpu-hours", "cost")
LIMITS = {"days": "days", "gpu-hours": "gpu_hours", "cost": "cost", "energy-kwh": "energy_kwh"}
"""The figures of a whole training that can be limited, as :func:`clustersim.planner.scaling_laws.bill` names them."""
SEQUENCE_PARALLEL = {"on": (True,), "off": (False,), "both": (True, False)}
_LEAST_TOKENS = 4096
"""Longer sequences are divided over context ranks, as long as each has so many tokens."""
_MOST_EXPERT_RANKS = 64
_KEPT = ("precision", "cost", "collectives", "link_delay", "network", "nvlink", "pcie", "model", "cluster", "batch.sequence")
_KEPT_STRATEGY = ("overlap", "prefetch", "scatter_gather", "async_tensor", "sends", "receives", "bucket")
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,6})?(?:e[-+]?[0-9]{1,2})?)"


@dataclass(frozen=True)
class Question:
    """``base``: the experiment that candidates complete. ``micro_given``: which micro-batches are looked at was said. ``front``: numbers
    of GPUs at which the best is wanted.
    """

    space: Space
    base: Base
    model: Model
    cluster: Cluster
    sequence: int
    limits: Limits
    training: Training
    prices: Prices
    objective: str
    top: int
    proven: int
    micro_given: bool
    front: tuple[int, ...] = ()

    def bill(self, candidate: Candidate, step_s: float) -> dict[str, float | None]:
        """The whole training with this candidate."""
        return bill(self.training, self.prices, candidate.gpus, candidate.batch, self.sequence, step_s)

    @property
    def per_gpu(self) -> bool:
        """Whether GPU time counts, and not time."""
        return self.objective != "time"

    @property
    def score(self) -> Score:
        """The days of the training, or its GPU hours: at one price the cheapest has the fewest."""
        training, per_gpu = self.training, self.per_gpu

        def score(candidate: Candidate, step_s: float) -> float:
            return training.steps(candidate.batch) * step_s * (candidate.gpus if per_gpu else 1)

        return score


def read_question(
    model: str, cluster: str, *, gpus: int | str | None = None, batch: int | str = "critical", batch_slack_percent: float = 1.0,
    sequence: int | None = None, node_size: int | None = None, tensor: Any = None, pipeline: Any = None, data: Any = None,
    context: Any = None, expert: Any = None, micro_batch: Any = None, chunks: Any = None,
    strategies: str | Sequence[str] | None = None,
    partition: Any = PARTITIONS, recompute: Any = RECOMPUTE, offload: Any = ("none",), sequence_parallel: str = "on",
    objective: str = "time", limits: Sequence[str] = (), price: str | None = None, gpu_power: str | None = None, pue: float = 1.2,
    law: str = "lamy-poirier", steps: float | None = None, tokens: float | None = None, top: int = 10, proven: int = 1,
    cost: str | None = None,
    overrides: Sequence[str] = (),
) -> Question:  # fmt: skip
    """The options as the command line has them; degrees and names as numbers, lists, or texts as ``1,2,4`` and ``1..8`` (doubling).

    InputError for whatever cannot be, or contradicts.
    """
    probe, base = _base(model, cluster, sequence, node_size, cost, overrides)
    known_law = _choice("--law", law, tuple(LAWS))
    dense = probe.model.active_parameters - embedding_parameters(probe.model) - head_parameters(probe.model)
    training = LAWS[known_law](dense, probe.sequence)
    most = _batch(batch, training)
    if not 0 <= batch_slack_percent < 100:
        raise InputError(f"--batch-slack {batch_slack_percent:g}: expected a percentage from 0 to below 100")
    training = _length(training, most, probe.sequence, steps, tokens)
    low, high = _range("--gpus", gpus, (1, probe.cluster.gpus if probe.cluster.whole else MAX_GPUS))
    prices = Prices(_rate("--price", price, "/h", "2.5/h"), _rate("--gpu-power", gpu_power, "W", "400 W"), pue)
    if not 1 <= pue <= 10:
        raise InputError(f"--pue {pue:g}: expected the power of the building over that of its computers, 1 to 10")
    names = _names("--strategies", strategies, tuple(PRESETS))
    space = Space(
        layers=probe.model.layers,
        gpus=(low, high),
        batch=(math.ceil(most * (1 - batch_slack_percent / 100)), most),
        node=1 if probe.cluster.ideal else probe.cluster.gpus_per_node,
        tensor=_degrees("--tensor", tensor, _tensors(probe)),
        pipeline=_degrees("--pipeline", pipeline, divisors(probe.model.layers)),
        data=numbers("--data", data) or None,
        context=_context(context, probe.sequence),
        expert=_degrees("--expert", expert, _experts(probe.model)),
        micro=numbers("--micro-batch", micro_batch),
        chunks=numbers("--chunks", chunks) or None,
        partition=_names("--partition", partition, PARTITIONS) or PARTITIONS,
        recompute=_names("--recompute", recompute, RECOMPUTE) or RECOMPUTE,
        offload=_names("--offload", offload, OFFLOADS) or ("none",),
        sequence_parallel=SEQUENCE_PARALLEL[_choice("--sequence-parallel", sequence_parallel, tuple(SEQUENCE_PARALLEL))],
    )  # fmt: skip
    if names:
        space = replace(space, strategies=names, each=True)
    if not space.micro:
        space = replace(space, micro=_micro_batches(probe, space))
    question = Question(
        space, base, probe.model, probe.cluster, probe.sequence, Limits(probe.cluster.gpu.usable_memory_bytes), training, prices,
        _choice("--objective", objective, OBJECTIVES), top, proven, micro_given=micro_batch is not None,
        front=_front(low, high) if isinstance(gpus, str) and ".." in gpus else (),
    )  # fmt: skip
    if question.objective == "cost" and prices.gpu_hour is None:
        raise InputError("--objective cost: the price of a GPU is missing; give for example --price 2.5/h")
    return replace(question, limits=_limits(question, limits))


def _base(
    model: str, cluster: str, sequence: int | None, node_size: int | None, cost: str | None, overrides: Sequence[str]
) -> tuple[Experiment, Base]:
    """An experiment on one GPU, which says whether model and cluster are right; and what all candidates have in common."""
    for text in overrides:
        path = text.partition("=")[0]
        if not path.startswith(_KEPT) and path not in [f"strategy.{name}" for name in _KEPT_STRATEGY]:
            allowed = ", ".join((*_KEPT, *(f"strategy.{name}" for name in _KEPT_STRATEGY)))
            raise InputError(
                f"--set {clipped(text)}: {clipped(path)} is what the planner chooses, or nothing it plans with; allowed: {allowed}"
            )
    data: dict[str, Any] = {"model": model, "cluster": cluster, "batch": {} if sequence is None else {"sequence": sequence}}
    data |= {} if cost is None else {"cost": cost}
    lines = {"model": "MODEL", "cluster": "CLUSTER", "cost": "--cost", "batch.sequence": "--sequence"}
    read = Document(data, "plan", lines).override(overrides, SHORT_FORMS)

    def probe(of: Document) -> Experiment:
        one = replace(of, data={**of.data, "batch": {**of.data["batch"], "global": 1}, "strategy": {"name": "standard"}})
        return parse(one, Path())

    first = probe(read)
    if node_size is not None:
        nics = sum(kind == "nic" for _, kind in first.cluster.devices) * node_size / first.cluster.gpus_per_node
        if nics != int(nics):
            whole = first.cluster.gpus_per_node
            raise InputError(
                f"--node-size {node_size}: the adapters of {whole} GPUs do not divide so; allowed: {whole} times a number"
            )
        # Set by hand, and not in the file: which GPU uses which adapter.
        read = read.override(
            [f"cluster.node.gpus={node_size}", f"cluster.node.nics={int(nics)}", "cluster.node.nic_of_gpu="], SHORT_FORMS, "--node-size"
        )
        first = probe(read)
    return first, Base(read, Path().resolve())


def _tensors(probe: Experiment) -> tuple[int, ...]:
    """Whole groups in a node, and as many heads on each rank."""
    return tuple(t for t in divisors(probe.model.heads) if t <= probe.cluster.gpus_per_node and probe.cluster.gpus_per_node % t == 0) or (
        1,
    )


def _contexts(sequence: int) -> tuple[int, ...]:
    doubled = (2**power for power in range(8))
    return tuple(ranks for ranks in doubled if ranks == 1 or (sequence % ranks == 0 and sequence // ranks >= _LEAST_TOKENS))


def _experts(model: Model) -> tuple[int, ...]:
    if not model.experts:
        return (1,)
    return tuple(2**power for power in range(20) if 2**power <= min(model.experts, _MOST_EXPERT_RANKS) and model.experts % 2**power == 0)


def _micro_batches(probe: Experiment, space: Space) -> tuple[int, ...]:
    """1, 2, 4 ... as far as the batch goes and one layer of the leanest candidate fits in memory."""

    def can_fit(micro: int) -> bool:
        leanest = Candidate(
            1, 1, max(space.tensor), max(space.context), max(space.expert), micro, 1, "standard", 1,
            sequence_parallel=any(space.sequence_parallel), offload=space.offload[-1],
        )  # fmt: skip
        least = min(layer_bytes(probe, replace(leanest, recompute=recompute)) for recompute in space.recompute)
        return least <= probe.cluster.gpu.usable_memory_bytes

    found = [1]
    while 2 * found[-1] <= space.batch[1] and can_fit(2 * found[-1]):
        found.append(2 * found[-1])
    return tuple(found)


def _context(given: Any, sequence: int) -> tuple[int, ...]:
    wanted = numbers("--context", given)
    wrong = [degree for degree in wanted if sequence % degree]
    if wrong:
        some = ", ".join(map(str, divisors(sequence)[:8]))
        raise InputError(f"--context {wrong[0]}: does not divide a sequence of {sequence} tokens; allowed: divisors of it, as {some}")
    return wanted or _contexts(sequence)


def _degrees(option: str, given: Any, possible: tuple[int, ...]) -> tuple[int, ...]:
    """The degrees asked for, all of which must be possible; without any all that are."""
    wanted = numbers(option, given)
    wrong = [degree for degree in wanted if degree not in possible]
    if wrong:
        raise InputError(f"{option} {wrong[0]}: the model and the cluster do not allow it; allowed: {', '.join(map(str, possible))}")
    return wanted or possible


def numbers(option: str, given: Any) -> tuple[int, ...]:
    """A number, several, or a text of them; none for None.

    >>> numbers("--tensor", "1..8"), numbers("--tensor", 4), numbers("--tensor", "2,6"), numbers("--tensor", None)
    ((1, 2, 4, 8), (4,), (2, 6), ())
    """
    if given is None:
        return ()
    parts = given.split(",") if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [given]
    found: set[int] = set()
    for part in parts:
        low, dots, high = str(part).partition("..")
        try:
            least, most = int(low), int(high if dots else low)
        except ValueError:
            least = most = 0
        _refuse_reversed(option, given, least, most)
        if not 1 <= least <= most <= 10**6:
            raise InputError(f"{option} {clipped(str(given))}: expected whole numbers from 1, for example 1,2,4 or 1..8 (doubling)")
        while least <= most:
            found.add(least)
            least *= 2
    return tuple(sorted(found))


def _refuse_reversed(option: str, given: Any, least: int, most: int) -> None:
    if least > most:
        raise InputError(f"{option} {clipped(str(given))}: the range is reversed; allowed: the smaller number first, {most}..{least}")


def _names(option: str, given: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Names in the order in which they are known."""
    wanted = [] if given is None else [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    for name in wanted:
        _choice(option, name, known)
    return tuple(name for name in known if name in wanted)


def _choice(option: str, given: Any, known: Sequence[str]) -> str:
    if given not in known:
        raise InputError(f"{option}: unknown {shown(given)}{nearest(str(given), known)}; allowed: {', '.join(known)}")
    return given


def _range(option: str, given: int | str | None, default: tuple[int, int]) -> tuple[int, int]:
    """``N`` is at most N; ``A..B`` from A to B."""
    if given is None:
        return default
    low, dots, high = str(given).partition("..")
    try:
        least, most = (int(low), int(high)) if dots else (1, int(low))
    except ValueError:
        least, most = 0, 0
    if dots:
        _refuse_reversed(option, given, least, most)
    if not 1 <= least <= most or most > default[1]:
        raise InputError(f"{option} {clipped(str(given))}: expected a number of GPUs up to {default[1]:,}, or a range as 64..1024")
    return least, most


def _front(low: int, high: int) -> tuple[int, ...]:
    """The most GPUs, and halves of it."""
    return tuple(high >> power for power in range(1, 8) if high >> power >= low)


def _batch(given: int | str, training: Training) -> int:
    if given == "critical":
        return max(1, round(training.critical_batch))
    if not re.fullmatch(r"[0-9]{1,9}", str(given)) or int(given) < 1:
        raise InputError(f"--batch {clipped(str(given))}: expected a number of sequences a step, or critical")
    return int(given)


def _length(training: Training, batch: int, sequence: int, steps: float | None, tokens: float | None) -> Training:
    """A training of so many steps of the batch, or tokens, instead of the law's."""
    if steps is not None and tokens is not None:
        raise InputError("--steps, --tokens: both say how long the training is; allowed: one of them")
    for option, value in (("--steps", steps), ("--tokens", tokens)):
        if value is not None and not 1 <= value <= 1e18:
            raise InputError(f"{option} {value:g}: expected a number from 1 to 1e18")
    if steps is not None:
        return Training(0.0, steps * batch)
    return training if tokens is None else Training(0.0, tokens / sequence)


def _rate(option: str, given: str | None, unit: str, example: str) -> float | None:
    if given is None:
        return None
    match = re.fullmatch(rf"\s*{_NUMBER}\s*{unit}\s*", str(given))
    if match is None or float(match[1]) <= 0:
        raise InputError(f"{option} {clipped(str(given))}: expected a number above 0 with its unit, for example {option} '{example}'")
    return float(match[1])


def _limits(question: Question, texts: Sequence[str]) -> Limits:
    """``days=30``, ``cost=5e6``, ``memory=70 GiB`` ..."""
    memory, most = question.limits.memory_bytes, {}
    given: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        place = f"--limit {clipped(text)}"
        if name in given:
            raise InputError(f"{place}: {clipped(name)} is limited twice, before as {clipped(given[name])}; allowed: one limit of a kind")
        given[name] = text
        if name == "memory":
            try:
                memory = int(units.parse(value, "size"))
            except ValueError as error:
                raise InputError(f"{place}: {error}") from None
            if not 0 < memory <= question.limits.memory_bytes:
                has = units.size_text(question.limits.memory_bytes)
                raise InputError(f"{place}: a job can use {has} of a GPU of {question.cluster.name}; allowed: above 0 and at most that")
            continue
        _choice(place, name, (*LIMITS, "memory"))
        match = re.fullmatch(_NUMBER, value)
        if match is None or float(value) <= 0:
            raise InputError(f"{place}: expected a number above 0, for example --limit {name}=1e6")
        needs = {"cost": ("--price", question.prices.gpu_hour), "energy-kwh": ("--gpu-power", question.prices.gpu_power_w)}.get(name)
        if needs and needs[1] is None:
            raise InputError(f"{place}: {needs[0]} is missing, without which there is no {name}")
        most[LIMITS[name]] = float(value)
    return Limits(memory, most, question.bill)
