"""What ``clustersim analyze`` prints: the answer in a sentence, then tables."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from clustersim import units
from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_text import CAUSE_WORDS, FAMILY_WORDS, document, family_words, limits, percent
from clustersim.analysis.diff import changes, difference
from clustersim.analysis.streams import PROFILED_COMMUNICATION
from clustersim.commands.output import console
from clustersim.units import PS_PER_S

_SHOWN = 12


def print_analysis(done: Analysis, job_ranks: int | None) -> None:
    """The sentence, the window, the tables. ``job_ranks``: ranks of the whole job, None where that is not known."""
    found = document(done)
    out = console()
    out.print(f"{found['limits'][0].upper()}{found['limits'][1:]}.")
    out.print(_window(done, found, job_ranks))
    where = _where(done), _kinds(done, found), _collectives(done, found), _path(done, found)
    for table in (*where, _late(done, found), _links(found), _ranks(found)):
        if table.row_count:
            out.print(table)


def print_difference(a: Analysis, b: Analysis) -> None:
    """What changed from one to the other, most first."""
    out = console()
    found = difference(a, b)
    out.print(f"{found[0].upper()}{found[1:]}.")
    out.print(f"A: {limits(a)}.\nB: {limits(b)}.")
    per_step = max(a.facts.steps, b.facts.steps) > 1
    table = table_of("mean over ranks and steps" if per_step else "mean over ranks", "A", "B", "change")
    for name, one, other in [("step" if per_step else "window", a.step_ps, b.step_ps), *changes(a, b)]:
        sign = "+" if other >= one else "-"
        table.add_row(name, _time(one), _time(other), sign + _time(abs(other - one)))
    table.caption = f"steps: {a.facts.steps} in A, {b.facts.steps} in B" if per_step else None
    out.print(table)


def table_of(first: str, *others: str) -> Table:
    """An empty table: names to the left, figures to the right."""
    table = Table(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _time(ps: float) -> str:
    return units.time_text(ps / PS_PER_S)


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else units.time_text(seconds)


def _kind(name: str) -> str:
    return FAMILY_WORDS[name] if name in PROFILED_COMMUNICATION else name


def _window(done: Analysis, found: dict[str, Any], job_ranks: int | None) -> str:
    ranks = f"{len(done.ranks):,} {'rank' if len(done.ranks) == 1 else 'ranks'}"
    weighed = int(done.ranks["stands_for"].sum())
    if weighed > len(done.ranks):
        ranks += f", which stand for {weighed:,} (means are over those)"
    elif job_ranks is not None and job_ranks > len(done.ranks):
        ranks += f", which stand for {job_ranks:,} (means are over those simulated)"
    mean = f", times are means over its steps of {_time(done.step_ps)}" if done.facts.steps > 1 else ""
    return (
        f"Window {_time(done.window_ps)}: {done.facts.window}{mean}; {ranks}; bubble {percent(found['bubble_of_total'])} of the window,"
        f" {percent(found['bubble_of_ideal'])} of the compute."
    )


def _where(done: Analysis) -> Table:
    """Compute + exposed + idle = the window."""
    several = done.facts.steps > 1
    table = table_of(f"where the time goes, mean over ranks{' and steps' if several else ''}", "time", "of the window")
    rows = [("compute", done.mean("compute_ps"))]
    rows += [(f"exposed {family_words(done, name)}", time) for name, time in done.exposed().items()]
    rows += [(f"idle: {CAUSE_WORDS[name]}", time) for name, time in done.idle().items() if time]
    for name, time in [*rows, ("step" if several else "window", done.step_ps)]:
        table.add_row(name, _time(time), percent(time / done.step_ps if done.step_ps else None))
    return table


def _kinds(done: Analysis, found: dict[str, Any]) -> Table:
    table = table_of("communication, mean over ranks", "time", "exposed", "hidden (overlap)", "of the compute under it")
    for row in found["communication"]:
        times = [units.time_text(row[key]) for key in ("communication_s", "exposed_communication_s")]
        table.add_row(family_words(done, row["kind"]), *times, percent(row["overlap"]), percent(row["compute_under_communication"]))
    if not table.row_count:
        table.add_row("none", "none", "none", "none", "none")
    return table


def _sum_over_ranks(done: Analysis) -> str:
    return "sum over ranks, mean over steps" if done.facts.steps > 1 else "sum over ranks"


def _count(number: float) -> str:
    """
    >>> _count(1200), _count(42.5)
    ('1,200', '42.5')
    """
    return f"{number:,.1f}".removesuffix(".0")


def _collectives(done: Analysis, found: dict[str, Any]) -> Table:
    rows = sorted(found["collectives"], key=lambda row: -row["time_s"])
    table = table_of(f"transfers, {_sum_over_ranks(done)}", "ops", "bytes", "time", "waiting", "algorithm bandwidth", "bus bandwidth")
    for row in rows[:_SHOWN]:
        name = _kind(row["collective"]) + (f", group {row['group']}" if row["group"] else "")
        speeds = [f"{row[key] / 1e9:.4g} GB/s" if row[key] else "unknown" for key in ("algbw_bytes_s", "busbw_bytes_s")]
        size = units.decimal_size_text(row["bytes"]) if row["bytes"] else "unknown"
        table.add_row(name, _count(row["count"]), size, units.time_text(row["time_s"]), _seconds(row["wait_s"]), *speeds)
    if len(rows) > _SHOWN:
        table.caption = f"the {_SHOWN} of {len(rows):,} that took longest; all with --json"
    return table


def _path(done: Analysis, found: dict[str, Any]) -> Table:
    path = found["critical_path"]
    table = table_of(f"critical path in the window, {units.time_text(path['length_s'])}", "time", "of the window")
    for kind, time in path["by_kind_s"].items():
        table.add_row(_kind(kind), units.time_text(time), percent(path["share_by_kind"][kind]))
    if done.slack is not None:
        slack = found["slack"]
        table.caption = f"{slack['without_slack']:,} of {slack['ops']:,} ops have no slack (to the end of the trace)"
    return table


def _late(done: Analysis, found: dict[str, Any]) -> Table:
    lost = "others wait without compute" if done.profiled else "others idle because of it"
    table = table_of(f"waited for, {_sum_over_ranks(done)}", lost, "others wait in collectives", "collectives", "compute, of its peers'")
    for row in found["stragglers"][:_SHOWN]:
        times = [units.time_text(row[key]) for key in ("idle_of_others_s", "waited_for_s")]
        pace = "unknown" if row["compute_over_median"] is None else f"{100 * row['compute_over_median']:.0f} %"
        alike = f" (x {row['stands_for']:,})" if row["stands_for"] > 1 else ""
        table.add_row(f"rank {row['rank']}{alike}", *times, _count(row["collectives"]), pace)
    return table


def _links(found: dict[str, Any]) -> Table:
    table = table_of("links in use", "mean utilization", "the busiest", "peak")
    for kind, use in found["links"].items():
        table.add_row(kind, *(percent(use[key]) for key in ("mean_utilization", "busiest_utilization", "peak_utilization")))
    return table


def _ranks(found: dict[str, Any]) -> Table:
    rows = found["ranks"]
    held = any(row["peak_memory_bytes"] is not None for row in rows)
    memory = ("peak memory of the run", "at") if held else ()
    table = table_of("rank", "compute", "exposed communication", "idle", "waiting for peers", "hidden (overlap)", *memory)
    for row in rows[:_SHOWN]:
        times = [units.time_text(row[key]) for key in ("compute_s", "exposed_communication_s", "idle_s")]
        peak = row["peak_memory_bytes"]
        known = () if not held else ("none", "none") if peak is None else (units.size_text(peak), units.time_text(row["peak_memory_at_s"]))
        table.add_row(str(row["rank"]), *times, _seconds(row["wait_s"]), percent(row["overlap"]), *known)
    if len(rows) > _SHOWN:
        table.caption = f"the first {_SHOWN} of {len(rows):,} ranks; all with --json"
    return table
