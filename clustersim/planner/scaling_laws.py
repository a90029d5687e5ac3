"""How long a training is: steps and critical batch from scaling laws, and what the whole costs.

A batch of B sequences reaches a loss in S steps with (S/S_min - 1)(B S/E_min - 1) = 1 (McCandlish et al. 2018, arXiv 1812.06162,
equation 2.11), of which the useful branch is S = S_min + E_min/B: the critical batch B_crit = E_min/S_min takes twice the fewest steps and
twice the fewest sequences.

>>> training = lamy_poirier(1.2582912e12, 2560)     # X_160: 12 x 160^5 parameters, sequences of 2,560 tokens
>>> round(training.critical_batch), round(training.steps(training.critical_batch))
(2417, 100000)
>>> Training(0.0, 300e9 / 2048).steps(1536) * 1536 * 2048     # a fixed number of tokens, whatever the batch
300000000000.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Training:
    """``least_steps``: S_min, of a batch without end. ``least_sequences``: E_min, of batches of next to nothing."""

    least_steps: float
    least_sequences: float

    @property
    def critical_batch(self) -> float:
        """Sequences."""
        return self.least_sequences / self.least_steps

    def steps(self, batch: float) -> float:
        """Optimizer steps with a batch of so many sequences."""
        return self.least_steps + self.least_sequences / batch


@dataclass(frozen=True)
class KaplanConstants:
    """Kaplan et al. 2020 (arXiv 2001.08361): the fits of L(N, S_min) in table 3 and of B_crit(L) in table 5; nats a token, N without
    embeddings. N alone has another fit there (table 5: 0.076, 8.8e13), which is not that of L(N, S_min).
    """

    alpha_n: float = 0.077
    n_c: float = 6.5e13
    alpha_s: float = 0.76
    s_c: float = 2.1e3
    alpha_b: float = 0.21
    b_star_tokens: float = 2.1e8


def kaplan(parameters: float, sequence: int, constants: KaplanConstants | None = None) -> Training:
    """Compute-efficient training of ``parameters`` (without embeddings), at sequences of so many tokens.

    It stops a share alpha_N/alpha_S above the loss at which the model converges (appendix B.2):
    L = (1 + alpha_N/alpha_S)(N_c/N)^alpha_N (equation B.5), (S_c/S_min)^alpha_S = alpha_N/alpha_S (N_c/N)^alpha_N (equation B.4), and
    B_crit = B*/L^(1/alpha_B) tokens (equation B.2).

    >>> training = kaplan(1.5e9, 1024)
    >>> round(training.least_steps), round(training.critical_batch)
    (14480, 2583)
    """
    fit = constants or KaplanConstants()
    converged = (fit.n_c / parameters) ** fit.alpha_n
    above = fit.alpha_n / fit.alpha_s
    least_steps = fit.s_c / (above * converged) ** (1 / fit.alpha_s)
    critical_tokens = fit.b_star_tokens / ((1 + above) * converged) ** (1 / fit.alpha_b)
    return Training(least_steps, least_steps * critical_tokens / sequence)


@dataclass(frozen=True)
class LamyPoirierConstants:
    """Lamy-Poirier 2021 (arXiv 2106.02679), for its family X_x: 12 x^5 parameters, sequences of 16 x tokens, a critical batch of
    82.0 x^(2/3) sequences, with which the training takes 100,000 steps. The last two are recalled, not checked against the text.
    """

    batch_sequences: float = 82.0
    batch_exponent: float = 2 / 3
    tokens_of_x: float = 16.0
    parameters_of_x: float = 12.0
    steps: float = 1e5


def lamy_poirier(parameters: float, sequence: int, constants: LamyPoirierConstants | None = None) -> Training:
    """As :func:`kaplan`; another model is taken for the X_x of as many parameters, with a critical batch of as many tokens.

    >>> round(lamy_poirier(12 * 32.0**5, 512).critical_batch, 1)     # 82.0 x 32^(2/3)
    826.5
    """
    fit = constants or LamyPoirierConstants()
    x = (parameters / fit.parameters_of_x) ** 0.2
    critical = fit.batch_sequences * x**fit.batch_exponent * fit.tokens_of_x * x / sequence
    return Training(fit.steps / 2, fit.steps / 2 * critical)


LAWS: Mapping[str, Callable[[float, int], Training]] = MappingProxyType({"lamy-poirier": lamy_poirier, "kaplan": kaplan})


@dataclass(frozen=True)
class Prices:
    """``gpu_hour``: of one GPU, in any currency. ``gpu_power_w``: watts of one GPU with its part of the node; ``pue``: of the building."""

    gpu_hour: float | None = None
    gpu_power_w: float | None = None
    pue: float = 1.2


def bill(training: Training, prices: Prices, gpus: int, batch: int, sequence: int, step_s: float) -> dict[str, float | None]:
    """The whole training: ``steps, tokens, days, gpu_hours, gpu_years, cost, energy_kwh``; the last two None without a price or a power.

    >>> made = bill(Training(0.0, 1000.0), Prices(gpu_hour=2.0, gpu_power_w=500.0, pue=1.2), gpus=10, batch=10, sequence=8, step_s=36.0)
    >>> made["steps"], made["tokens"], made["gpu_hours"], made["cost"], round(made["energy_kwh"], 9)
    (100.0, 8000.0, 10.0, 20.0, 6.0)
    """
    steps = training.steps(batch)
    hours = steps * step_s / 3600
    gpu_hours = gpus * hours
    return {
        "steps": steps,
        "tokens": steps * batch * sequence,
        "days": hours / 24,
        "gpu_hours": gpu_hours,
        "gpu_years": gpu_hours / (24 * 365.25),
        "cost": None if prices.gpu_hour is None else gpu_hours * prices.gpu_hour,
        "energy_kwh": None if prices.gpu_power_w is None else gpu_hours * prices.gpu_power_w / 1000 * prices.pue,
    }
