"""A way to train X_x with the baseline or the improved method, and what a simulation says of it.

>>> improved = Configuration("improved", data=483, pipeline=5, tensor=16, micro_batches=5)
>>> improved.gpus, improved.batch, improved.assignments()["strategy.name"]
(38640, 2415, 'mpp')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from clustersim import document, presets
from clustersim.experiment import parse
from clustersim.model.presets import preset
from clustersim.model.spec import Model
from clustersim.planner.scaling_laws import Prices, Training, bill, lamy_poirier
from clustersim.sweeps.points import Base, base_of, resolved
from clustersim.sweeps.run import Workers

PEAK, CALIBRATED = "peak", "megatron-2024"
NETWORKS = {"NVLink": "2400 Gb/s", "InfiniBand": "200 Gb/s", "Ethernet": "25 Gb/s"}
"""Of one GPU, each way; NVLink's as if the whole cluster were one node."""
_FIELDS = ("method", "x", "cost", "network", "node", "data", "pipeline", "tensor", "micro", "micro_batches", "partition", "offload")


@dataclass(frozen=True)
class Configuration:
    """``micro`` sequences a micro-batch, ``micro_batches`` a replica; ``node``: its GPUs. The methods:

    ``baseline`` accumulates gradients in standard order, 1F1B over contiguous stages; ``improved`` in layered order, over modular
    stages where there are several.
    """

    method: str
    data: int
    pipeline: int
    tensor: int
    micro_batches: int
    micro: int = 1
    partition: str = "parameters"
    offload: str = "none"
    x: int = 160
    cost: str = PEAK
    network: str = "InfiniBand"
    node: int = 16

    @property
    def gpus(self) -> int:
        return self.data * self.pipeline * self.tensor

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return self.data * self.micro * self.micro_batches

    @property
    def strategy(self) -> str:
        return "standard" if self.method == "baseline" else "mpp" if self.pipeline > 1 else "lga"

    @cached_property
    def model(self) -> Model:
        return preset(f"x-{self.x}")

    @property
    def training(self) -> Training:
        """The paper's law."""
        return lamy_poirier(12 * self.x**5, self.model.sequence)

    def days(self, step_s: float) -> float:
        return bill(self.training, Prices(), self.gpus, self.batch, self.model.sequence, step_s)["days"]

    def assignments(self) -> dict[str, str]:
        """What it puts into an experiment, by path. PCIe is widened where the network is NVLink, which does not pass through it."""
        return {
            "strategy.name": self.strategy,
            "strategy.partition": self.partition,
            "strategy.offload": self.offload,
            "model": self.model.name,
            **({"cost": PEAK} if self.cost == PEAK else {"software": self.cost}),
            "network.bandwidth": NETWORKS[self.network],
            **({"pcie.bandwidth": "1 TB/s"} if self.network == "NVLink" else {}),
            **({"cluster.node.gpus": str(self.node), "cluster.node.nics": str(self.node)} if self.node != 16 else {}),
            **{f"parallel.{name}": str(getattr(self, name)) for name in ("data", "pipeline", "tensor")},
            "batch.global": str(self.batch),
            "batch.micro": str(self.micro),
        }


PAPER = (
    Configuration("baseline", data=14, pipeline=160, tensor=16, micro_batches=172, partition="none"),
    Configuration("improved", data=483, pipeline=5, tensor=16, micro_batches=5),
)
"""The two of arXiv 2106.02679 for X_160 with all three dimensions."""


def base() -> Base:
    """The shipped experiment without its cost; everything else that matters is replaced."""
    folder = presets.folder("schedules")
    read = document.load(folder / "x-160.yaml")
    return base_of(replace(read, data={key: value for key, value in read.data.items() if key != "cost"}), folder)


def simulated(asked: Iterable[Configuration], pool: Workers) -> list[dict[str, Any]]:
    """A row for each: the configuration, and figures of its simulation with their units."""
    asked = list(asked)
    rows = dict(pool.solve([one.assignments() for one in asked]))
    return [row_of(one, rows[number]) for number, one in enumerate(asked)]


def row_of(one: Configuration, summary: dict[str, Any]) -> dict[str, Any]:
    if "step_time_s" not in summary:
        raise RuntimeError(f"{one}: {summary['reason']}")
    step_s, at_peak = summary["step_time_s"], summary["memory_at_peak_bytes"]
    return {
        **{name: value for name, value in asdict(one).items() if name in _FIELDS},
        "gpus": one.gpus,
        "step_time_s": step_s,
        "days": one.days(step_s),
        "hfu": summary["hfu"],
        "compute_s": summary["ideal_compute_s"],
        "exposed_communication_s": summary["exposed_communication_s"],
        "idle_s": summary["idle_s"],
        **{f"{kind}_bytes": at_peak.get(kind, 0) for kind in MEMORY},
        "peak_memory_bytes": summary["peak_memory_bytes"],
        "fits": summary["fits"],
    }


MEMORY = ("weights", "gradients", "optimizer", "buffers", "activations")
"""Kinds of memory, as the summary names them."""


def usable_bytes() -> int:
    """What a job can have of a GPU's memory."""
    return parse(resolved(base(), PAPER[1].assignments()), base().near).cluster.gpu.usable_memory_bytes
