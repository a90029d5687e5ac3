"""The page of this folder: its text is ``page.txt``, every figure in it comes from the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from closed_form import MEMORY_BYTES, layer_of, step_s
from configurations import CALIBRATED, PAPER, PEAK, usable_bytes

METHODS = ("baseline", "improved")
PUBLISHED_DAYS = {"baseline": 14.5, "improved": 7.15}
"""From the efficiencies of 0.45 and 0.85."""
_STATE = {"none": "no state partitioned", "parameters": "all state partitioned"}
_CHECKPOINTS = {"none": "checkpoints on the GPU", "activations": "checkpoints on the host"}
_TRAFFIC = {"reduce": "gradient reduction", "state": "partitioned state", "pipeline": "pipeline, 5 stages", "tensor": "tensor, 16 ways"}


def page(tables: Mapping[str, pd.DataFrame]) -> str:
    """README.md of the tables by name, as :mod:`tables` makes them."""
    text = Path(__file__).with_name("page.txt").read_text(encoding="utf-8")
    comparison, sizes = tables["comparison"], tables["sizes"]
    return text.format(
        parameters=f"{12 * 160**5 / 1e12:.2f}", software=CALIBRATED, usable=gb(usable_bytes()),
        **_times(comparison), **_sizes(sizes), **_networks(tables["networks"], pick(sizes, x=160, method="improved")["days"]),
        **_memory(tables["memory"]),
        comparison_table=comparison_table(comparison), sizes_table=sizes_table(sizes), intensity_table=intensity_table(tables["intensity"]),
    )  # fmt: skip


def pick(table: pd.DataFrame, **of: object) -> pd.Series:
    """The one row with these values."""
    for name, value in of.items():
        table = table[table[name] == value]
    (place,) = table.index
    return table.loc[place]


def _times(comparison: pd.DataFrame) -> dict[str, str]:
    days = {
        (cost, method): pick(comparison, dimensions="3d", cost=cost, method=method)["days"]
        for cost in (PEAK, CALIBRATED)
        for method in METHODS
    }
    off = {method: days[PEAK, method] / PUBLISHED_DAYS[method] - 1 for method in METHODS}
    return {
        "ratio_peak": ratio(days[PEAK, "baseline"], days[PEAK, "improved"]),
        "days_peak": against(days[PEAK, "baseline"], days[PEAK, "improved"]),
        "ratio_calibrated": ratio(days[CALIBRATED, "baseline"], days[CALIBRATED, "improved"]),
        "days_calibrated": against(days[CALIBRATED, "baseline"], days[CALIBRATED, "improved"]),
        "off_published": f"{off['improved']:+.1%} and {off['baseline']:+.1%}",
        "improved_off": f"{off['improved']:.1%}",
        "messages": f"{messages():.1%}",
        "unfit": f"{int((~comparison['fits']).sum())}",
    }


def messages() -> float:
    """Share of the improved step in which pipeline messages are waited for, by the closed form: each way around all ranks in every loop."""
    layer = layer_of(PAPER[1])
    return 2 * PAPER[1].x * (layer.send_s + layer.join_s) / step_s(PAPER[1])


def _sizes(sizes: pd.DataFrame) -> dict[str, str]:
    days = sizes.pivot(index="x", columns="method", values="days")
    best, ratios = days.loc[160], days["baseline"] / days["improved"]
    largest = pick(sizes, x=sizes["x"].max(), method="improved")
    return {
        "ratio_best": ratio(best["baseline"], best["improved"]),
        "days_best": against(best["baseline"], best["improved"]),
        "ratio_range": f"{ratios.min():.2f} to {ratios.max():.2f}",
        "baseline_degrees": degrees(pick(sizes, x=160, method="baseline")),
        "largest": f"X_{largest['x']}, {12 * largest['x'] ** 5 / 1e12:.0f} trillion parameters,",
        "largest_memory": gb(largest["peak_memory_bytes"]),
        "largest_buffers": gb(largest["buffers_bytes"]),
        "largest_years": f"{largest['days'] / 365.25:.1f}",
        "closed_form_error": f"{(sizes['closed_form_days'] / sizes['days'] - 1).abs().max():.0%}",
    }


def _networks(networks: pd.DataFrame, on_infiniband: float) -> dict[str, str]:
    best = pick(networks, case="shortest", network="Ethernet", method="improved")
    fixed = {method: pick(networks, case="as on InfiniBand", network="Ethernet", method=method)["days"] for method in METHODS}
    return {
        "ethernet_days": f"**{best['days']:.2f}**",
        "ethernet_degrees": degrees(best),
        "ethernet_state": f"{_STATE[best['partition']]}, {_CHECKPOINTS[best['offload']]}",
        "ethernet_memory": gb(best["peak_memory_bytes"]),
        "ethernet_share": share(best["peak_memory_bytes"]),
        "ethernet_more": f"{best['days'] / on_infiniband - 1:.0%}",
        "ethernet_fixed": f"{fixed['improved']:.1f}",
        "ethernet_fixed_baseline": f"{fixed['baseline']:.1f}",
    }


def _memory(memory: pd.DataFrame) -> dict[str, str]:
    held = {key: pick(memory, method=key[0], partition=key[1], offload=key[2]) for key in zip(
        memory["method"], memory["partition"], memory["offload"], strict=True)}  # fmt: skip
    away, here = held["improved", "parameters", "all"], held["improved", "parameters", "none"]
    return {
        "memory_away": gb(away["peak_memory_bytes"]),
        "share_away": share(away["peak_memory_bytes"]),
        "away_more": f"{away['days'] / here['days'] - 1:.1%}",
        "memory_here": gb(here["peak_memory_bytes"]),
        "share_here": share(here["peak_memory_bytes"]),
        "state_here": gb(state_bytes(here)),
        "buffers": gb(away["buffers_bytes"]),
        "memory_baseline_away": gb(held["baseline", "none", "all"]["peak_memory_bytes"]),
        "memory_unpartitioned": gb(held["improved", "none", "none"]["peak_memory_bytes"]),
    }


def ratio(baseline: float, improved: float) -> str:
    return f"{baseline / improved:.2f}"


def against(baseline: float, improved: float) -> str:
    return f"{improved:.2f} against {baseline:.2f}"


def degrees(row: pd.Series) -> str:
    return f"data {row['data']} x pipeline {row['pipeline']} x tensor {row['tensor']}, {row['micro_batches']} micro-batches"


def gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def share(size: float) -> str:
    return f"{size / MEMORY_BYTES:.0%}"


def state_bytes(row: pd.Series) -> float:
    return row["weights_bytes"] + row["gradients_bytes"] + row["optimizer_bytes"]


def comparison_table(table: pd.DataFrame) -> str:
    header = ["cost", "dimensions", "method", "data x pipeline x tensor", "GPUs", "m x b", "HFU", "days"]
    lines = []
    for _, row in table.iterrows():
        total = f"{row['peak_memory_bytes'] / 1e9:.1f}"
        memory = [f"{size / 1e9:.1f}" for size in (state_bytes(row), row["buffers_bytes"], row["activations_bytes"])]
        lines.append([
            row["cost"], row["dimensions"], row["method"], f"{row['data']} x {row['pipeline']} x {row['tensor']}", f"{row['gpus']:,}",
            f"{row['micro_batches']} x {row['micro']}", f"{row['hfu']:.2f}", f"{row['days']:#.4g}", *memory,
            total if row["fits"] else f"*{total}*",
        ])  # fmt: skip
    return markdown([*header, "state (GB)", "buffers", "activations", "memory"], lines)


def sizes_table(table: pd.DataFrame) -> str:
    lines = []
    for x, of in table.groupby("x"):
        baseline, improved = (pick(of, method=method) for method in METHODS)
        cells = [
            cell
            for row in (baseline, improved)
            for cell in (
                f"{row['data']} x {row['pipeline']} x {row['tensor']}", f"{row['micro_batches']}", f"{row['days']:#.3g}".rstrip("."),
            )
        ]
        lines.append([f"{x}", f"{12 * x**5 / 1e9:,.1f}", *cells, ratio(baseline["days"], improved["days"])])
    header = ["x", "parameters (1e9)", "baseline: data x pipeline x tensor", "m", "days", "improved", "m", "days", "ratio"]
    return markdown(header, lines)


def intensity_table(table: pd.DataFrame) -> str:
    lines = [
        [_TRAFFIC[row["traffic"]], row["method"], f"{row['counted']:,.0f}", f"{row['form']:,.0f}", f"{row['error']:+.2%}"]
        for _, row in table.iterrows()
    ]
    return markdown(["traffic", "method", "counted (FLOP/B)", "form", "difference"], lines)


def markdown(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))
