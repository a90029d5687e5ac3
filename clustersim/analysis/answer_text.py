"""The analysis in words, and as one JSON document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_late import Late, late_rank
from clustersim.analysis.answer_links import by_kind
from clustersim.analysis.path import path_by_kind
from clustersim.analysis.streams import FAMILIES
from clustersim.units import PS_PER_S

FAMILY_WORDS = {
    "tensor": "tensor-parallel communication",
    "context": "context-parallel communication",
    "expert": "expert-parallel communication",
    "pipeline": "pipeline messages",
    "offload": "offload traffic to the host",
    "communication": "unnamed collectives",
    **{name: name.replace("_", "-") for name in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")},
}
CAUSE_WORDS = {
    "warm_up": "warm-up, before a rank's first compute",
    "drain": "drain, after a rank's last compute",
    "data": "waiting for data of another rank",
    "peer": "waiting for peers in collectives",
    "contention": "waiting for ranks held up on contended links",
    "dependency": "waiting for an op of another rank",
    "copies": "device copies",
    "other_step": "ops of another step, or of none",
    "nothing": "nothing to do",
}
PIPELINE_IDLE = ("warm_up", "drain", "data")
_MOSTLY = 0.73  # of the step: compute is what limits it, and the sentence begins with it
_LONGEST = 20


def percent(share: float | None) -> str:
    """
    >>> percent(0.384), percent(0.0012), percent(None)
    ('38 %', '0.12 %', 'none')
    """
    if share is None:
        return "none"
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"


def family_words(analysis: Analysis, family: str) -> str:
    """What a kind of communication does in this trace."""
    if family != "data":
        return FAMILY_WORDS[family]
    reduces, gathers = "reduce" in analysis.kinds, "gather" in analysis.kinds
    return "gradient reduction" + (" and parameter gathering" if gathers else "") if reduces else "parameter gathering"


def losses(analysis: Analysis) -> list[tuple[str, float, str]]:
    """What is not compute, most first: in words, ps (mean over ranks and steps), and the family of communication, empty for idle.

    Waiting for data, warm-up and drain are one: the bubble of a pipeline.
    """
    found = [(f"exposed {family_words(analysis, name)}", time, name) for name, time in analysis.exposed().items()]
    idle = analysis.idle()
    parts = sorted((name for name in PIPELINE_IDLE if idle[name]), key=lambda name: -idle[name])
    short = {"warm_up": "warm-up", "drain": "drain", "data": "waiting for data"}
    shares = ", ".join(f"{short[name]} {percent(_share(idle[name], analysis.step_ps))}" for name in parts)
    where = "in the pipeline" if "recv" in analysis.kinds else "at the ends"
    bubble = f"idle {where} ({shares})" if len(parts) > 1 else f"idle: {CAUSE_WORDS[parts[0]]}" if parts else ""
    found.append((bubble, sum(idle[name] for name in PIPELINE_IDLE), ""))
    found += [(f"idle: {CAUSE_WORDS[name]}", time, "") for name, time in idle.items() if name not in PIPELINE_IDLE]
    return sorted([one for one in found if one[1] > 0], key=lambda one: (-one[1], one[0]))


def limits(analysis: Analysis) -> str:
    """One sentence: what limits this step."""
    what = "window" if analysis.facts.given else "trace" if analysis.profiled and analysis.facts.member is None else "step"
    window = analysis.step_ps
    if not window:
        return f"nothing: the {what} takes no time"
    compute, found = analysis.mean("compute_ps") / window, losses(analysis)
    if not found:
        return f"compute: 100 % of the {what} is compute"
    words, time, family = found[0]
    kind, use = analysis.limiting_links.get(family, ("", 0.0))
    where = f" on {kind} links at {percent(use)} utilization" if kind else ""
    amount, whose, loss = percent(_share(time, window)), "", f"{words}{where}"
    waits_in_it = bool(family) == analysis.profiled  # measured ranks wait inside kernels that communicate, simulated ones are idle
    late = _late(analysis, words, time)
    if late is not None:
        waiting = percent(late.share), " on the other ranks", f"waiting for {_who(late)}, which {_why(late)}"
        link = "with" if waits_in_it else "and"
        whole = late.most and waits_in_it
        amount, whose, loss = waiting if whole else (amount, whose, "{}, {} {}{} {}".format(loss, link, *waiting))
    if compute >= _MOSTLY:
        return f"compute: {percent(compute)} of the {what} is compute; the largest loss is {amount}{whose} {loss}"
    return f"{amount} of the {what}{whose} is {loss}; {percent(compute)} is compute"


def _late(analysis: Analysis, words: str, time: float) -> Late | None:
    """The rank to name for a loss, of ``time`` ps a step on the mean rank; measured ranks lose what they wait in communication."""
    lost = analysis.mean("exposed_ps") if analysis.profiled else time
    total = lost * int(analysis.ranks["stands_for"].sum()) * analysis.facts.steps
    return late_rank(analysis.ranks, analysis.window_ps, total, analysis.profiled or words == f"idle: {CAUSE_WORDS['peer']}")


def _who(late: Late) -> str:
    """
    >>> _who(Late(rank=6, slower=1.3, share=0.2, most=True, alike=1)), _who(Late(rank=6, slower=1.3, share=0.2, most=True, alike=4))
    ('rank 6', 'rank 6 (one of 4 alike)')
    """
    return f"rank {late.rank}" + (f" (one of {late.alike:,} alike)" if late.alike > 1 else "")


def _why(late: Late) -> str:
    """
    >>> _why(Late(6, slower=1.3, share=0.2, most=True, alike=1)), _why(Late(6, slower=None, share=0.2, most=True, alike=1))
    ('computes 30 % longer than its peers (median) for the same work', 'comes last to collectives')
    """
    if late.slower is None:
        return "comes last to collectives"
    return f"computes {percent(late.slower - 1)} longer than its peers (median) for the same work"


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def document(analysis: Analysis) -> dict[str, Any]:
    """Everything but the table of ops: SI units, None where there is nothing to divide by, or nothing is known.

    Of a window of several steps all is of its mean step, ``window_s`` too, but for ``window``. ``waits``, ``collectives`` and
    ``stragglers`` are sums over the ranks of the job, other times without a rank means over them.
    """
    window = analysis.step_ps
    idle = window - analysis.mean("compute_ps")
    exposed = analysis.exposed()
    return {
        "window_s": window / PS_PER_S,
        "window_begin_s": analysis.window[0] / PS_PER_S,
        "window": {
            "what": analysis.facts.window,
            "begin_s": analysis.window[0] / PS_PER_S,
            "end_s": analysis.window[1] / PS_PER_S,
            "steps": analysis.facts.steps,
        },
        "limits": limits(analysis),
        "ranks": _ranks(analysis),
        "bubble_of_total": _share(idle, window),
        "bubble_of_ideal": _share(idle, analysis.mean("compute_ps")),
        "compute_s": analysis.mean("compute_ps") / PS_PER_S,
        "exposed_communication_s": {name: time / PS_PER_S for name, time in exposed.items()},
        "idle_s": {name: time / PS_PER_S for name, time in analysis.idle().items()},
        "wait_s": analysis.mean("wait_ps") / PS_PER_S if analysis.ranks["wait_known"].all() else None,
        "overlap": _overlap(analysis),
        "communication": _communication(analysis),
        "streams": _streams(analysis),
        "critical_path": _path(analysis),
        "slack": _slack(analysis),
        "waits": _waits(analysis),
        "collectives": _per_step(analysis, _records(analysis.bandwidths), ("count", "bytes", "time_s", "wait_s")),
        "stragglers": _stragglers(analysis),
        "links": {} if analysis.links is None else by_kind(analysis.links),
        "links_over_time": [] if analysis.links_over_time is None else analysis.links_over_time.to_dict("records"),
    }


def _overlap(analysis: Analysis) -> float | None:
    """Mean over the ranks that communicate."""
    rows = analysis.ranks[analysis.ranks["communication_ps"] > 0]
    shares = rows["hidden_ps"] / rows["communication_ps"]
    return float((shares * rows["stands_for"]).sum() / rows["stands_for"].sum()) if len(rows) else None


def _waits(analysis: Analysis) -> list[dict[str, Any]]:
    """By kind; what rests on waits is None where those of a rank are not known. Sends and receives of a measured trace wait unseen."""
    unknown = dict.fromkeys(("wait_s", "longest_wait_s", "transfer_s"))
    known = bool(analysis.ranks["wait_known"].all())
    seen = {str(row["kind"]): known and not (analysis.profiled and row["kind"] in ("send", "recv")) for row in _records(analysis.waits)}
    rows = [row if seen[str(row["kind"])] else row | unknown for row in _records(analysis.waits)]
    return _per_step(analysis, rows, ("ops", "wait_s", "transfer_s", "contention_s"))


def _per_step(analysis: Analysis, rows: list[dict[str, Any]], sums: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows with these sums over the steps of the window, where it has several, divided by their number."""
    steps = analysis.facts.steps
    if steps == 1:
        return rows
    return [row | {name: row[name] / steps for name in sums if row[name] is not None} for row in rows]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.to_dict("records")


def _ranks(analysis: Analysis) -> list[dict[str, Any]]:
    window, second = analysis.step_ps, PS_PER_S * analysis.facts.steps
    by_family: dict[int, dict[str, float]] = {}
    for row in analysis.families.itertuples(index=False):
        by_family.setdefault(int(row.rank), {})[str(row.family)] = int(row.exposed_ps) / second
    causes = analysis.causes.drop(columns="rank").to_dict("records")
    rows = []
    for row, cause in zip(analysis.ranks.itertuples(index=False), causes, strict=True):
        times = (row.compute_ps, row.communication_ps, row.hidden_ps)
        compute, communication, hidden = (int(time) / analysis.facts.steps for time in times)
        peak, when = analysis.memory.get(int(row.rank), (None, None))
        rows.append(
            {
                "rank": int(row.rank),
                "stands_for": int(row.stands_for),
                "compute_s": compute / PS_PER_S,
                "communication_s": communication / PS_PER_S,
                "hidden_communication_s": hidden / PS_PER_S,
                "exposed_communication_s": int(row.exposed_ps) / second,
                "contended_communication_s": None if analysis.profiled else int(row.contended_ps) / second,
                "idle_s": int(row.idle_ps) / second,
                "wait_s": int(row.wait_ps) / second if row.wait_known else None,
                "overlap": _share(hidden, communication),
                "compute_under_communication": _share(hidden, compute) if communication else None,
                "compute_utilization": _share(compute, window),
                "bubble_of_total": _share(window - compute, window),
                "bubble_of_ideal": _share(window - compute, compute),
                "peak_memory_bytes": peak,
                "peak_memory_at_s": None if when is None else when / PS_PER_S,
                "exposed_by_kind_s": by_family.get(int(row.rank), {}),
                "idle_by_cause_s": {name: int(time) / second for name, time in cause.items()},
            }
        )
    return rows


def _streams(analysis: Analysis) -> list[dict[str, Any]]:
    return [
        {
            "rank": int(row.rank),
            "stream": str(row.stream),
            "ops": int(row.ops),
            "busy_s": int(row.busy_ps) / PS_PER_S / analysis.facts.steps,
            "utilization": _share(int(row.busy_ps), analysis.window_ps),
        }
        for row in analysis.streams.itertuples(index=False)
    ]


def _communication(analysis: Analysis) -> list[dict[str, Any]]:
    """A row per kind, mean over ranks; ``overlap`` and ``compute_under_communication`` over the sums of all ranks."""
    weight = analysis.ranks.set_index("rank")["stands_for"].astype(float)
    count, compute = weight.sum() * analysis.facts.steps, float((analysis.ranks["compute_ps"].to_numpy() * weight).sum())
    rows = []
    for family in FAMILIES:
        of = analysis.families[analysis.families["family"] == family]
        if len(of):
            sums = of[["communication_ps", "hidden_ps", "exposed_ps"]].mul(of["rank"].map(weight), axis=0).sum()
            total, hidden, exposed = sums.tolist()
            rows.append(
                {
                    "kind": family,
                    "communication_s": total / count / PS_PER_S,
                    "exposed_communication_s": exposed / count / PS_PER_S,
                    "overlap": _share(hidden, total),
                    "compute_under_communication": _share(hidden, compute),
                }
            )
    return rows


def _path(analysis: Analysis) -> dict[str, Any]:
    """What of it lies in the window, as long as that."""
    path = analysis.path
    times = {kind: time / analysis.facts.steps for kind, time in path_by_kind(path, analysis.window).items()}
    took = path["end_ps"] - path["start_ps"]
    longest = path[took > 0].assign(took=took).sort_values(["took", "start_ps"], ascending=[False, True]).head(_LONGEST)
    return {
        "length_s": sum(times.values()) / PS_PER_S,
        "pieces": len(path),
        "by_kind_s": {kind: time / PS_PER_S for kind, time in times.items()},
        "share_by_kind": {kind: _share(time, analysis.step_ps) for kind, time in times.items()},
        "longest": [
            {
                "op": int(row.op),
                "rank": int(row.rank),
                "kind": str(row.kind),
                "start_s": int(row.start_ps) / PS_PER_S,
                "time_s": int(row.took) / PS_PER_S,
            }
            for row in longest.itertuples(index=False)
        ],
    }


def _slack(analysis: Analysis) -> dict[str, Any] | None:
    """Of the ops in the window, up to the end of the trace."""
    if analysis.slack is None:
        return None
    slack = analysis.slack[analysis.within]
    return {
        "ops": len(slack),
        "without_slack": int((slack == 0).sum()),
        "mean_s": float(slack.mean()) / PS_PER_S if len(slack) else None,
        "greatest_s": int(slack.max()) / PS_PER_S if len(slack) else None,
    }


def _stragglers(analysis: Analysis) -> list[dict[str, Any]]:
    """Ranks that others wait for, most first: its compute over that of its peers, idle of others because of it (in a measured trace
    waits in kernels without compute), and waits for it in collectives, idle or not. A rank that stands for others has their sums too.
    """
    table = analysis.stragglers.assign(idle=analysis.ranks["waited_for_ps"].to_numpy())
    table["pace"], table["stands_for"] = (analysis.ranks[name].to_numpy() for name in ("compute_over_median", "stands_for"))
    table = table[(table["idle"] > 0) | (table["waited_for_s"] > 0)]
    table = table.sort_values(["idle", "waited_for_s", "rank"], ascending=[False, False, True])
    rows = [
        {
            "rank": int(row.rank),
            "stands_for": int(row.stands_for),
            "compute_over_median": None if np.isnan(row.pace) else float(row.pace),
            "idle_of_others_s": float(row.idle) / PS_PER_S,
            "waited_for_s": float(row.waited_for_s),
            "collectives": int(row.collectives),
        }
        for row in table.itertuples(index=False)
    ]
    return _per_step(analysis, rows, ("idle_of_others_s", "waited_for_s", "collectives"))
