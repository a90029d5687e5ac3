"""The analysis in words, and as one JSON document."""

from __future__ import annotations

from typing import Any

from clustersim.analysis.answer import Analysis
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
    "communication": "communication",
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
    "nothing": "nothing to do",
}
PIPELINE_IDLE = ("warm_up", "drain", "data")
_MOSTLY = 0.9
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
    """What is not compute, most first: in words, ps (mean over ranks), and the family of communication, empty for idle.

    Waiting for data, warm-up and drain are one: the bubble of a pipeline.
    """
    found = [(f"exposed {family_words(analysis, name)}", time, name) for name, time in analysis.exposed().items()]
    idle = analysis.idle()
    parts = sorted((name for name in PIPELINE_IDLE if idle[name]), key=lambda name: -idle[name])
    short = {"warm_up": "warm-up", "drain": "drain", "data": "waiting for data"}
    shares = ", ".join(f"{short[name]} {percent(_share(idle[name], analysis.window_ps))}" for name in parts)
    where = "in the pipeline" if "recv" in analysis.kinds else "at the ends"
    bubble = f"idle {where} ({shares})" if len(parts) > 1 else f"idle: {CAUSE_WORDS[parts[0]]}" if parts else ""
    found.append((bubble, sum(idle[name] for name in PIPELINE_IDLE), ""))
    found += [(f"idle: {CAUSE_WORDS[name]}", time, "") for name, time in idle.items() if name not in PIPELINE_IDLE]
    return sorted([one for one in found if one[1] > 0], key=lambda one: (-one[1], one[0]))


def limits(analysis: Analysis) -> str:
    """One sentence: what limits this step."""
    what = "trace" if analysis.profiled else "step"
    window = analysis.window_ps
    if not window:
        return f"nothing: the {what} takes no time"
    compute, found = _share(analysis.mean("compute_ps"), window), losses(analysis)
    if not found:
        return f"compute: 100 % of the {what} is compute"
    words, time, family = found[0]
    kind, use = analysis.limiting_links.get(family, ("", 0.0))
    where = f" on {kind} links at {percent(use)} utilization" if kind else ""
    late = analysis.ranks["waited_for_ps"]
    if "peers" in words and late.max():
        where = f", most of all for rank {int(analysis.ranks['rank'][late.idxmax()])}"
    if compute >= _MOSTLY:
        return f"compute: {percent(compute)} of the {what} is compute; the largest loss is {percent(_share(time, window))} {words}{where}"
    return f"{percent(_share(time, window))} of the {what} is {words}{where}; {percent(compute)} is compute"


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def document(analysis: Analysis) -> dict[str, Any]:
    """Everything but the table of ops: SI units, None where there is nothing to divide by, means over the ranks of the trace."""
    window = analysis.window_ps
    idle = window - analysis.mean("compute_ps")
    exposed = analysis.exposed()
    return {
        "window_s": window / PS_PER_S,
        "window_begin_s": analysis.window[0] / PS_PER_S,
        "limits": limits(analysis),
        "ranks": _ranks(analysis),
        "bubble_of_total": _share(idle, window),
        "bubble_of_ideal": _share(idle, analysis.mean("compute_ps")),
        "compute_s": analysis.mean("compute_ps") / PS_PER_S,
        "exposed_communication_s": {name: time / PS_PER_S for name, time in exposed.items()},
        "idle_s": {name: time / PS_PER_S for name, time in analysis.idle().items()},
        "communication": _communication(analysis),
        "streams": _streams(analysis),
        "critical_path": _path(analysis),
        "slack": _slack(analysis),
        "waits": analysis.waits.to_dict("records"),
        "stragglers": _stragglers(analysis),
        "links": {} if analysis.links is None else by_kind(analysis.links),
    }


def _ranks(analysis: Analysis) -> list[dict[str, Any]]:
    window, by_family = analysis.window_ps, {}
    for row in analysis.families.itertuples(index=False):
        by_family.setdefault(int(row.rank), {})[str(row.family)] = int(row.exposed_ps) / PS_PER_S
    causes = analysis.causes.drop(columns="rank").to_dict("records")
    rows = []
    for row, cause in zip(analysis.ranks.itertuples(index=False), causes, strict=True):
        bubble = window - int(row.compute_ps)
        rows.append(
            {
                "rank": int(row.rank),
                "compute_s": int(row.compute_ps) / PS_PER_S,
                "communication_s": int(row.communication_ps) / PS_PER_S,
                "hidden_communication_s": int(row.hidden_ps) / PS_PER_S,
                "exposed_communication_s": int(row.exposed_ps) / PS_PER_S,
                "contended_communication_s": None if analysis.profiled else int(row.contended_ps) / PS_PER_S,
                "idle_s": int(row.idle_ps) / PS_PER_S,
                "overlap": _share(int(row.hidden_ps), int(row.communication_ps)),
                "compute_under_communication": _share(int(row.hidden_ps), int(row.compute_ps)) if row.communication_ps else None,
                "compute_utilization": _share(int(row.compute_ps), window),
                "bubble_of_total": _share(bubble, window),
                "bubble_of_ideal": _share(bubble, int(row.compute_ps)),
                "exposed_by_kind_s": by_family.get(int(row.rank), {}),
                "idle_by_cause_s": {name: int(time) / PS_PER_S for name, time in cause.items()},
            }
        )
    return rows


def _streams(analysis: Analysis) -> list[dict[str, Any]]:
    return [
        {
            "rank": int(row.rank),
            "stream": str(row.stream),
            "ops": int(row.ops),
            "busy_s": int(row.busy_ps) / PS_PER_S,
            "utilization": _share(int(row.busy_ps), analysis.window_ps),
        }
        for row in analysis.streams.itertuples(index=False)
    ]


def _communication(analysis: Analysis) -> list[dict[str, Any]]:
    """A row per kind, mean over ranks; ``overlap`` and ``compute_under_communication`` over the sums of all ranks."""
    count, compute = len(analysis.ranks), float(analysis.ranks["compute_ps"].astype(float).sum())
    rows = []
    for family in FAMILIES:
        of = analysis.families[analysis.families["family"] == family]
        if len(of):
            total, hidden, exposed = (float(of[f"{name}_ps"].astype(float).sum()) for name in ("communication", "hidden", "exposed"))
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
    """Of the whole trace; shares are of the window."""
    path = analysis.path
    times = path_by_kind(path, analysis.window)
    length = int(path["end_ps"].iloc[-1] - path["start_ps"].iloc[0]) if len(path) else 0
    took = path["end_ps"] - path["start_ps"]
    longest = path[took > 0].assign(took=took).sort_values(["took", "start_ps"], ascending=[False, True]).head(_LONGEST)
    return {
        "length_s": length / PS_PER_S,
        "pieces": len(path),
        "by_kind_s": {kind: time / PS_PER_S for kind, time in times.items()},
        "share_by_kind": {kind: _share(time, analysis.window_ps) for kind, time in times.items()},
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
    if analysis.slack is None:
        return None
    slack = analysis.slack
    return {
        "ops": len(slack),
        "without_slack": int((slack == 0).sum()),
        "mean_s": float(slack.mean() / PS_PER_S),
        "greatest_s": int(slack.max()) / PS_PER_S,
    }


def _stragglers(analysis: Analysis) -> list[dict[str, Any]]:
    """Ranks that others wait for, most first: idle of others because of it, and waits for it in collectives, idle or not."""
    table = analysis.stragglers.assign(idle=analysis.ranks["waited_for_ps"].to_numpy())
    table = table[(table["idle"] > 0) | (table["waited_for_s"] > 0)]
    table = table.sort_values(["idle", "waited_for_s", "rank"], ascending=[False, False, True])
    return [
        {
            "rank": int(row.rank),
            "idle_of_others_s": int(row.idle) / PS_PER_S,
            "waited_for_s": float(row.waited_for_s),
            "collectives": int(row.collectives),
        }
        for row in table.itertuples(index=False)
    ]
