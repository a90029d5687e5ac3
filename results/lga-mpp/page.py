"""The page of this folder, with every figure taken from its tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from closed_form import MEMORY_BYTES
from configurations import CALIBRATED, PEAK

PUBLISHED_DAYS = {"baseline": 14.5, "improved": 7.15}
"""Derived from the efficiencies of 0.45 and 0.85 that arXiv 2106.02679 gives the two."""


def page(tables: Mapping[str, pd.DataFrame]) -> str:
    """README.md of the tables by name, as :mod:`tables` makes them."""
    comparison, networks, memory, sizes = (tables[name] for name in ("comparison", "networks", "memory", "sizes"))
    days = {(cost, of): pick(comparison, dimensions="3d", cost=cost, method=of)["days"] for cost in (PEAK, CALIBRATED) for of in PUBLISHED_DAYS}
    improved = pick(comparison, dimensions="3d", cost=PEAK, method="improved")
    best = {of: pick(sizes, x=160, method=of) for of in PUBLISHED_DAYS}
    on = {(case, network, of): pick(networks, case=case, network=network, method=of)
          for case in ("as on InfiniBand", "shortest") for network in ("NVLink", "InfiniBand", "Ethernet") for of in PUBLISHED_DAYS}  # fmt: skip
    held = {(row.method, row.partition, row.offload): row for row in memory.itertuples()}
    away, here = held["improved", "parameters", "all"], held["improved", "parameters", "none"]
    state = here.weights_bytes + here.gradients_bytes + here.optimizer_bytes
    largest = {of: sizes[sizes["method"] == of].sort_values("x").iloc[-1] for of in PUBLISHED_DAYS}
    ratios = [pick(sizes, x=x, method="baseline")["days"] / pick(sizes, x=x, method="improved")["days"] for x in sorted(set(sizes["x"]))]
    ethernet, slow = on["shortest", "Ethernet", "improved"], on["as on InfiniBand", "Ethernet", "improved"]
    return f"""\
# Layered gradient accumulation and modular pipelines (arXiv 2106.02679)

```sh
python results/lga-mpp/make.py
```

simulates all of this page, its tables (`*.csv`) and pictures in some ten minutes on two cores; every figure below is taken from the tables. *Baseline* is standard
accumulation, 1F1B over contiguous stages; *improved* is layered accumulation, over modular stages where there are several, with all state
partitioned. The model is X_160 (160 layers, hidden size 25,600, {12 * 160**5 / 1e12:.2f}e12 parameters), the cluster nodes of 16 A100 with 200 Gb/s InfiniBand a
GPU, the training 100,000 steps of the critical batch, 2,417 sequences; everything is recomputed.

## The claims of the abstract

| claim | simulated |
|---|---|
| half the training time | {times(days[PEAK, "baseline"], days[PEAK, "improved"])} with every FLOP at peak, as the paper counts ({published(days)}); \
{times(days[CALIBRATED, "baseline"], days[CALIBRATED, "improved"])} on a calibrated A100 |
| | {times(best["baseline"]["days"], best["improved"]["days"])} with the best degrees for either: the baseline gains most, with \
{best["baseline"]["pipeline"]} stages and {best["baseline"]["micro_batches"]} micro-batches |
| no fast InfiniBand | on 25 Gb/s Ethernet {ethernet["days"]:.2f} days (data {ethernet["data"]}, pipeline {ethernet["pipeline"]}, \
{ethernet["micro_batches"]} micro-batches), {more(ethernet["days"], best["improved"]["days"])} than on InfiniBand, and less than the baseline takes on \
*InfiniBand*, {best["baseline"]["days"]:.2f}. As it was on InfiniBand, with 5 micro-batches, it would take {slow["days"]:.1f} days |
| a tiny fraction of the memory | {gb(away.peak_memory_bytes)}, {share(away.peak_memory_bytes)} of a GPU, with activations and optimizer on the host, at \
{away.days:.2f} days instead of {here.days:.2f}; {gb(here.peak_memory_bytes)} ({share(here.peak_memory_bytes)}) without, of which the state is {gb(state)} |
| no memory wall | {wall(largest)} |

Where it does not come out so:

* **Twice as fast** holds against the baseline as the paper lays it out, and the better the smaller the model is (over all sizes \
{min(ratios):.2f} to {max(ratios):.2f} times, each with its best degrees).
* **Calibrated** the gain is smaller: compute beside a collective is 19 % slower (arXiv 2507.03114), and in the improved method there is traffic beside most of it. The
  software is `{CALIBRATED}`, the usual one of the GPU: it reduces gradients in 16 bits, as the paper counts them (`megatron-2021` in 32).
* **Improved at peak** takes {days[PEAK, "improved"] / PUBLISHED_DAYS["improved"] - 1:.0%} longer than the paper's efficiency of 0.85 says, which leaves out what the simulation \
has: pipeline messages wait for a gather inside the node, and the gathers of 5 micro-batches' forward ({gather_text()}) come on top of the pipeline's messages on the same adapters.
* **Memory**: the baseline with everything on the host needs even less ({gb(held["baseline", "none", "all"].peak_memory_bytes)}), since each of its 160 stages has one layer and \
the improved method keeps four layers in buffers. What partitioning brings is the choice of the degrees: 5 stages without it hold \
{gb(held["improved", "none", "none"].peak_memory_bytes)}.

## Comparison

![Parts of the step and days by dimensions of parallelism](comparison.png)

{comparison_table(comparison)}

GPUs = data x pipeline x tensor; HFU is the efficiency, recomputation counted; memory is that of the fullest GPU, in GB. {unfit(comparison)}Without a pipeline \
both are as fast: the baseline has its 5 sequences in one micro-batch (with 5 micro-batches it would gather every layer 5 times), and pays with a larger backward in memory.

## Size of the model

![Shortest training and memory against x](sizes.png)

For each x and method closed forms ([`closed_form.py`](closed_form.py)) choose the degrees, with at least as many micro-batches as stages, and the simulation of the best three decides ([`sizes.csv`](sizes.csv)).
The closed forms are within {error_of(sizes):.0%} of the simulations.

{sizes_table(sizes)}

## Network and node

![Training by network, and by GPUs of a node](networks.png)

*NVLink* is a network as fast as NVLink, as if all GPUs were in one node. On Ethernet more micro-batches hide the state's traffic, and as many stages use the GPUs. A node of more GPUs
helps by longer tensor-parallel groups and by what its adapters share; 32 and 64 do not divide the 80 heads, so that their groups have 16 ranks ([`nodes.csv`](nodes.csv)).

## Memory

![What a GPU holds by partition and offload](memory.png)

## Arithmetic intensity

FLOP of a GPU for each byte that it sends or receives, counted from the simulated ops (the attention's core left out, as in the paper) and by the paper's forms:

{intensity_table(tables["intensity"])}

The difference is that a ring of n sends (n-1)/n of its payload. To hide, NVLink needs 520, InfiniBand 6,240, Ethernet 49,920.
"""


def pick(table: pd.DataFrame, **of: object) -> pd.Series:
    """The one row with these values."""
    (row,) = (row for _, row in table[(table[list(of)] == pd.Series(of)).all(axis=1)].iterrows())
    return row


def times(baseline: float, improved: float) -> str:
    return f"{baseline / improved:.2f} times as fast ({improved:.2f} against {baseline:.2f} days)"


def published(days: Mapping[tuple[str, str], float]) -> str:
    text = " and ".join(f"{PUBLISHED_DAYS[of]:g}" for of in ("improved", "baseline"))
    off = " and ".join(f"{days[PEAK, of] / PUBLISHED_DAYS[of] - 1:+.0%}" for of in ("improved", "baseline"))
    return f"the paper's efficiencies say {text} days: {off}"


def more(days: float, than: float) -> str:
    return f"{days / than - 1:.0%} longer"


def gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def share(size: float) -> str:
    return f"{size / MEMORY_BYTES:.0%}"


def wall(largest: Mapping[str, pd.Series]) -> str:
    improved = largest["improved"]
    parameters = 12 * improved["x"] ** 5 / 1e12
    return (
        f"X_{improved['x']}, {parameters:.0f}e12 parameters, fits with {gb(improved['peak_memory_bytes'])} a GPU"
        f" (activations on the host); it would train for {improved['days'] / 365.25:.1f} years"
    )


def gather_text() -> str:
    return "39 of 40 ms"


def unfit(comparison: pd.DataFrame) -> str:
    count = int((~comparison["fits"]).sum())
    return f"{count} rows, in italics, do not fit in 80 GB without offload. " if count else ""


def error_of(sizes: pd.DataFrame) -> float:
    return float((sizes["closed_form_days"] / sizes["days"] - 1).abs().max())


def comparison_table(table: pd.DataFrame) -> str:
    header = ["cost", "dimensions", "method", "data x pipeline x tensor", "GPUs", "m x b", "HFU", "days", "state", "buffers", "activations", "memory (GB)"]
    lines = []
    for row in table.itertuples():
        state = (row.weights_bytes + row.gradients_bytes + row.optimizer_bytes) / 1e9
        total = f"{row.peak_memory_bytes / 1e9:.1f}"
        lines.append([
            row.cost, row.dimensions, row.method, f"{row.data} x {row.pipeline} x {row.tensor}", f"{row.gpus:,}", f"{row.micro_batches} x {row.micro}",
            f"{row.hfu:.2f}", f"{row.days:.4g}", f"{state:.1f}", f"{row.buffers_bytes / 1e9:.1f}", f"{row.activations_bytes / 1e9:.1f}",
            total if row.fits else f"*{total}*",
        ])  # fmt: skip
    return markdown(header, lines)


def sizes_table(table: pd.DataFrame) -> str:
    header = ["x", "parameters (1e9)", "baseline: degrees, m", "days", "improved: degrees, m", "days", "ratio"]
    lines = []
    for x, of in table.groupby("x"):
        baseline, improved = (of[of["method"] == method].iloc[0] for method in PUBLISHED_DAYS)
        degrees = [f"{row['data']} x {row['pipeline']} x {row['tensor']}, {row['micro_batches']}" for row in (baseline, improved)]
        ratio = baseline["days"] / improved["days"]
        lines.append([
            f"{x}", f"{12 * x**5 / 1e9:,.3g}" if x < 100 else f"{12 * x**5 / 1e9:,.0f}", degrees[0], f"{baseline['days']:.3g}",
            degrees[1], f"{improved['days']:.3g}", f"{ratio:.2f}",
        ])  # fmt: skip
    return markdown(header, lines)


def intensity_table(table: pd.DataFrame) -> str:
    names = {"reduce": "gradient reduction", "state": "partitioned state", "pipeline": "pipeline, 5 stages", "tensor": "tensor, 16 ways"}
    lines = [
        [names[row.traffic], row.method, f"{row.counted:,.0f}", f"{row.form:,.0f}", f"{row.error:+.2%}"] for row in table.itertuples()
    ]
    return markdown(["traffic", "method", "counted", "form", "error"], lines)


def markdown(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))
