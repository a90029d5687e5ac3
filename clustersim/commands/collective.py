"""``clustersim collective``: time and bandwidth by size and algorithm, as nccl-tests print them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from clustersim import units
from clustersim.cluster.load import load_cluster
from clustersim.cluster.spec import Cluster
from clustersim.collectives.algorithms import ALGORITHMS, algorithms_for
from clustersim.collectives.layout import lay_out
from clustersim.collectives.loads import alone_phases, time_ps
from clustersim.collectives.protocols import fastest
from clustersim.commands.arguments import rank_numbers
from clustersim.commands.output import console, print_files, print_json
from clustersim.document import clipped, nearest
from clustersim.errors import InputError

_BUS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}
NAMES = (*_BUS, "broadcast", "send")
_MOST_SIZES = 200
_MOST_RANKS = 100_000
_MOST_DIRECT, _MOST_NAMED_DIRECT = 256, 1024  # its messages grow with the square of the ranks
_SILENT = 60_000  # about so many messages take a second


def collective(options: argparse.Namespace) -> None:
    """Print a row per size and algorithm; of each size the choice of ``collectives: auto`` is marked."""
    if options.op not in NAMES:
        raise InputError(f"--op {clipped(options.op)}: unknown operation{nearest(options.op, NAMES)}; allowed: {', '.join(NAMES)}")
    sizes = parse_sizes(options.size)
    picture = _picture(options.output)
    cluster, ranks = _cluster(options)
    rows = collective_rows(cluster, ranks, options.op, _algorithms(options, cluster, ranks), sizes)
    title = f"{options.op}, {len(ranks)} GPU{'s' if len(ranks) > 1 else ''} of {cluster.name}"
    drawn = picture is not None and _drawn(rows, picture, title)
    if options.json:
        print_json({"rows": rows})
        return
    _print_table(rows, f"{title}; sizes in bytes, one direction")
    if drawn and picture is not None:
        print_files([picture])


def _drawn(rows: Sequence[dict[str, Any]], picture: Path, title: str) -> bool:
    """Whether there was anything to draw."""
    if all(row["busbw_bytes_s"] is None for row in rows):
        print(f"note: {picture} is not drawn: no collective takes any time, so that there is nothing to draw", file=sys.stderr)
        return False
    from clustersim.plots.collective import draw_collective

    draw_collective(rows, picture, title=title)
    return True


def _picture(output: str | None) -> Path | None:
    if not output:
        return None
    from clustersim.plots.collective import check_format

    return check_format(Path(output))


def bus_factor(op: str, members: int) -> Fraction:
    """busbw = algbw x this (nccl-tests, doc/PERFORMANCE.md).

    >>> bus_factor("all-reduce", 8), bus_factor("broadcast", 8)
    (Fraction(7, 4), Fraction(1, 1))
    """
    return Fraction(_BUS[op] * (members - 1), members) if op in _BUS else Fraction(1)


def collective_rows(
    cluster: Cluster, ranks: Sequence[int], op: str, algorithms: Sequence[str], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """``op, algorithm, size_bytes, time_s, algbw_bytes_s, busbw_bytes_s, auto, in_library``; bandwidths are None where nothing takes time.

    ``auto`` among the algorithms stands for the one it takes. ``auto`` of a row is None where finding out would take too long.
    """
    inner = op.replace("-", "_")
    library = ["send"] if op == "send" else _candidates(cluster, ranks, inner)
    costly = len(ranks) > _MOST_DIRECT and "direct" in library and not {"auto", "direct"} & set(algorithms)
    wanted = [name for name in (*algorithms, *([] if costly else library)) if name != "auto"]
    times = {name: _alone(cluster, ranks, inner, name) for name in dict.fromkeys(wanted)}
    rows = []
    for size in sizes:
        chosen = None if costly else min(library, key=lambda name: times[name](size))
        for algorithm in dict.fromkeys((chosen or name) if name == "auto" else name for name in algorithms):
            time_s = times[algorithm](size) / units.PS_PER_S
            algbw = size / time_s if time_s else None
            rows.append(
                {
                    "op": op,
                    "algorithm": algorithm,
                    "size_bytes": size,
                    "time_s": time_s,
                    "algbw_bytes_s": algbw,
                    "busbw_bytes_s": None if algbw is None else algbw * float(bus_factor(op, len(ranks))),
                    "auto": None if costly else algorithm == chosen,
                    "in_library": algorithm in library,
                }
            )
    return rows


def _candidates(cluster: Cluster, ranks: Sequence[int], op: str) -> list[str]:
    """What ``auto`` chooses from: the algorithms of the cluster's library, all where it has none for the operation."""
    able = algorithms_for(op, lay_out(cluster, ranks))
    return [name for name in cluster.algorithms if name in able] or [name for name in ALGORITHMS if name in able]


def _alone(cluster: Cluster, ranks: Sequence[int], op: str, algorithm: str) -> Callable[[int], int]:
    """:func:`clustersim.collectives.loads.alone_ps` by the payload, laid over the links once for all sizes."""
    n = len(ranks)
    if (n * n if algorithm == "direct" else 20 * n) > _SILENT:
        print(f"{algorithm} of {n:,} ranks ...", file=sys.stderr, flush=True)
    phases = alone_phases(cluster, ranks, op, algorithm)

    def by_size(payload_bytes: int) -> int:
        under = time_ps(phases, payload_bytes)
        return under(fastest(cluster.protocols, under))

    return by_size


def parse_sizes(text: str) -> list[int]:
    """``1MB``, a list ``1KB,1MB``, or ``1KB..4GB``: doubling from the first, and the last.

    >>> parse_sizes("1KB..4KB"), parse_sizes("1KB..5KB"), parse_sizes("1MiB,3MB")
    ([1000, 2000, 4000], [1000, 2000, 4000, 5000], [1048576, 3000000])
    """
    place = f"--size {clipped(text)}"
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        low = _whole_bytes(place, first)
        high = _whole_bytes(place, last) if dots else low
        if low < 1:
            raise InputError(f"{place}: a collective moves at least 1 byte, got {first}; for example 1KB..4GB")
        if high < low:
            raise InputError(f"{place}: {last} is less than {first}; write the smaller first, for example 1KB..4GB")
        while low < high:
            sizes.append(low)
            low *= 2
        sizes.append(high)
        if len(sizes) > _MOST_SIZES:
            raise InputError(f"{place}: more than {_MOST_SIZES} sizes; allowed: at most that many")
    return sizes


def _whole_bytes(place: str, text: str) -> int:
    try:
        size = units.parse(text, "size")
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None
    match = re.fullmatch(r"\s*([-+.0-9]+(?:[eE][-+]?[0-9]+)?)\s*(\S+)\s*", text)
    assert match is not None  # it has been parsed
    number, unit = match.groups()
    if Fraction(number) * units.parse(f"1{unit}", "size") != size:
        raise InputError(f"{place}: {text.strip()} is not a whole number of bytes; the nearest is {size}B")
    return size


def _cluster(options: argparse.Namespace) -> tuple[Cluster, list[int]]:
    place = f"--cluster {options.cluster}"
    load = partial(load_cluster, options.cluster, nodes=None, overrides={}, near=Path(), place=place)
    if options.ranks is None:
        node = load(gpus=1)
        return node, list(range(node.gpus))
    ranks, seen = rank_numbers("--ranks", options.ranks), set()
    place = f"--ranks {clipped(options.ranks)}"
    for rank in ranks:
        if rank in seen:
            raise InputError(f"{place}: rank {rank} is given twice; a group has each rank once")
        seen.add(rank)
    if len(ranks) > _MOST_RANKS:
        raise InputError(f"{place}: {len(ranks):,} ranks; allowed: at most {_MOST_RANKS:,}")
    return load(gpus=max(ranks) + 1), ranks


def _algorithms(options: argparse.Namespace, cluster: Cluster, ranks: list[int]) -> list[str]:
    """Those to show; InputError for one that is unknown, not able, or too much work."""
    op, n = options.op, len(ranks)
    if op == "send":
        if n != 2:
            raise InputError(f"--ranks: a send has two ranks, got {n}; for example --ranks 0,8")
        if options.algorithm is not None:
            raise InputError(f"--algorithm {clipped(options.algorithm)}: a send has no algorithm; leave this out")
        return ["send"]
    able = [name for name in ALGORITHMS if name in algorithms_for(op.replace("-", "_"), lay_out(cluster, ranks))]
    names = [*able] if options.algorithm is None else options.algorithm.split(",")
    for position, name in enumerate(names):
        place = f"--algorithm {clipped(name)}"
        if name not in ("auto", *ALGORITHMS):
            hint = nearest(name, ("auto", *ALGORITHMS))
            raise InputError(f"{place}: unknown algorithm{hint}; allowed: auto, {', '.join(able)}")
        if name not in ("auto", *able):
            raise InputError(f"{place}: has no {op} for these {n} ranks; allowed: auto, {', '.join(able)}")
        if name in names[:position]:
            raise InputError(f"{place}: is given twice; name each once")
    if options.algorithm is None and n > _MOST_DIRECT and able != ["direct"]:
        names.remove("direct")
        print(f"note: direct is left out above {_MOST_DIRECT} ranks, since it takes long; `--algorithm direct` gives it", file=sys.stderr)
    chosen_from = _candidates(cluster, ranks, op.replace("-", "_")) if "auto" in names else []
    if n > _MOST_NAMED_DIRECT and "direct" in (*names, *chosen_from):
        messages = f"direct sends {n * (n - 1):,} messages between {n:,} ranks"
        raise InputError(f"--ranks: {messages}; allowed: at most {_MOST_NAMED_DIRECT:,} ranks")
    return names


def _print_table(rows: list[dict[str, Any]], title: str) -> None:
    table = Table(title=title, title_justify="left")
    for column in ("size (B)", "algorithm", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "in the library"):
        table.add_column(column, justify="left" if column in ("algorithm", "in the library") else "right")
    for row in rows:
        bandwidths = ("none" if row[key] is None else f"{row[key] / 1e9:.2f}" for key in ("algbw_bytes_s", "busbw_bytes_s"))
        mark = "auto takes it" if row["auto"] else "yes" if row["in_library"] else "no"
        table.add_row(str(row["size_bytes"]), row["algorithm"], f"{row['time_s'] * 1e6:.2f}", *bandwidths, mark)
    console().print(table)
