"""``clustersim collective``: time and bandwidth by size and algorithm, as nccl-tests print them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table

from clustersim import units
from clustersim.cluster.load import load_cluster
from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import ALGORITHMS, algorithms_for
from clustersim.collectives.layout import lay_out
from clustersim.collectives.loads import alone_ps
from clustersim.commands.arguments import rank_numbers
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import nearest
from clustersim.errors import InputError

_BUS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}
NAMES = (*_BUS, "broadcast", "send")
_MOST_SIZES = 200


def collective(options: argparse.Namespace) -> None:
    """Print a row per size and algorithm; of each size the fastest is marked."""
    if options.op not in NAMES:
        raise InputError(f"--op {options.op}: unknown operation{nearest(options.op, NAMES)}; allowed: {', '.join(NAMES)}")
    sizes = parse_sizes(options.size)
    cluster, ranks = _cluster(options)
    rows = collective_rows(cluster, ranks, options.op, _algorithms(options, cluster, ranks), sizes)
    files = []
    if options.output:
        from clustersim.plots.collective import draw_collective

        files.append(draw_collective(rows, Path(options.output), title=f"{options.op} of {len(ranks)} GPUs, {cluster.name}"))
    if options.json:
        print_json({"rows": rows})
        return
    _print_table(rows, f"{options.op}, {len(ranks)} GPUs of {cluster.name}; sizes in bytes, one direction")
    if files:
        print_files(files)


def bus_factor(op: str, members: int) -> Fraction:
    """busbw = algbw x this (nccl-tests, doc/PERFORMANCE.md).

    >>> bus_factor("all-reduce", 8), bus_factor("broadcast", 8)
    (Fraction(7, 4), Fraction(1, 1))
    """
    return Fraction(_BUS[op] * (members - 1), members) if op in _BUS else Fraction(1)


def collective_rows(
    cluster: Cluster, ranks: Sequence[int], op: str, algorithms: Sequence[str], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """``op, algorithm, size_bytes, time_s, algbw_bytes_s, busbw_bytes_s``; bandwidths are None where nothing takes time."""
    rows = []
    for size in sizes:
        for algorithm in algorithms:
            time_s = alone_ps(cluster, ranks, op.replace("-", "_"), algorithm, size) / units.PS_PER_S
            algbw = size / time_s if time_s else None
            rows.append(
                {
                    "op": op,
                    "algorithm": algorithm,
                    "size_bytes": size,
                    "time_s": time_s,
                    "algbw_bytes_s": algbw,
                    "busbw_bytes_s": None if algbw is None else algbw * float(bus_factor(op, len(ranks))),
                }
            )
    return rows


def parse_sizes(text: str) -> list[int]:
    """``1MB``, a list ``1KB,1MB``, or ``1KB..4GB`` doubling from the first to the last.

    >>> parse_sizes("1KB..4KB"), parse_sizes("1MiB,3MB")
    ([1000, 2000, 4000], [1048576, 3000000])
    """
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        try:
            low = units.parse(first, "size")
            high = units.parse(last, "size") if dots else low
        except ValueError as error:
            raise InputError(f"--size {text}: {error}") from None
        if low < 1:
            raise InputError(f"--size {text}: a collective moves at least 1 byte, got {first}; for example 1KB..4GB")
        if high < low:
            raise InputError(f"--size {text}: {last} is less than {first}; write the smaller first, for example 1KB..4GB")
        while low <= high:
            sizes.append(low)
            low *= 2
    if len(sizes) > _MOST_SIZES:
        raise InputError(f"--size {text}: {len(sizes)} sizes; allowed: at most {_MOST_SIZES}")
    return sizes


def _cluster(options: argparse.Namespace) -> tuple[Cluster, list[int]]:
    place = f"--cluster {options.cluster}"
    load = {"nodes": None, "overrides": {}, "near": Path(), "place": place}
    if options.ranks is None:
        node = load_cluster(options.cluster, gpus=1, **load)
        return node, list(range(node.gpus))
    ranks = rank_numbers("--ranks", options.ranks)
    if len(set(ranks)) < len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        raise InputError(f"--ranks {options.ranks}: rank {twice} is given twice; a group has each rank once")
    return load_cluster(options.cluster, gpus=max(ranks) + 1, **load), ranks


def _algorithms(options: argparse.Namespace, cluster: Cluster, ranks: list[int]) -> list[str]:
    if options.op == "send":
        if len(ranks) != 2:
            raise InputError(f"--ranks: a send has two ranks, got {len(ranks)}; for example --ranks 0,8")
        return ["send"]
    able = algorithms_for(options.op.replace("-", "_"), lay_out(cluster, ranks))
    if options.algorithm is None:
        return [name for name in ALGORITHMS if name in able]
    names = options.algorithm.split(",")
    for name in names:
        if name not in able:
            raise InputError(
                f"--algorithm {name}: no {options.op} for these {len(ranks)} ranks{nearest(name, able)}; allowed: {', '.join(able)}"
            )
    return names


def _print_table(rows: list[dict[str, Any]], title: str) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("size (B)", "algorithm", "time (us)", "algbw (GB/s)", "busbw (GB/s)", ""):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    best: dict[int, float] = {}
    for row in rows:
        best[row["size_bytes"]] = min(row["time_s"], best.get(row["size_bytes"], row["time_s"]))
    for row in rows:
        bandwidths = ("none" if row[key] is None else f"{row[key] / 1e9:.2f}" for key in ("algbw_bytes_s", "busbw_bytes_s"))
        fastest = "fastest" if row["time_s"] == best[row["size_bytes"]] else ""
        table.add_row(str(row["size_bytes"]), row["algorithm"], f"{row['time_s'] * 1e6:.2f}", *bandwidths, fastest)
    console().print(table)
