"""Where the duration of a kernel comes from: the roofline, or a table of what was measured.

>>> from clustersim.compute.calibration import load_calibration
>>> analytic = Analytic(load_calibration("A100-SXM4-80GB", "megatron-2022"), "bf16")
>>> product = Matmul(4096, 4096, 4096)
>>> Measured({product: 600e-6}, analytic).duration(product)
0.0006
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from clustersim.compute.calibration import Calibration
from clustersim.compute.kernels import Kernel, Matmul
from clustersim.compute.roofline import kernel_s, sixteen_bits


class Durations(Protocol):
    """What a kernel takes on one GPU."""

    def duration(self, kernel: Kernel) -> float:
        """Seconds."""

    def in_16_bits(self) -> Durations:
        """Of kernels that have 16 bits where the matrices of the layers have 8."""


@dataclass(frozen=True)
class Analytic:
    """From a calibration, for one precision."""

    calibration: Calibration
    precision: str

    def duration(self, kernel: Kernel) -> float:
        return kernel_s(kernel, self.calibration, self.precision)

    def in_16_bits(self) -> Analytic:
        return replace(self, precision=sixteen_bits(self.precision))


@dataclass(frozen=True)
class Measured:
    """Kernels as in the table, seconds each; whatever it does not have as ``otherwise`` says.

    A product is also that of the transposed matrices, in which order a library computes it is its own matter.
    """

    table: Mapping[Kernel, float]
    otherwise: Durations

    def known(self, kernel: Kernel) -> float | None:
        """What the table says of a kernel."""
        known = self.table.get(kernel)
        if known is None and isinstance(kernel, Matmul):
            known = self.table.get(Matmul(kernel.columns, kernel.rows, kernel.inner, kernel.batch))
        return known

    def duration(self, kernel: Kernel) -> float:
        known = self.known(kernel)
        return self.otherwise.duration(kernel) if known is None else known

    def in_16_bits(self) -> Measured:
        return replace(self, otherwise=self.otherwise.in_16_bits())


def total_s(durations: Durations, kernels: Iterable[Kernel]) -> float:
    """Kernels one after another."""
    return sum(durations.duration(kernel) for kernel in kernels)
