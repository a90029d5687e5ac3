"""Messages between stages, and the order that they force on compute."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from clustersim.errors import InputError
from clustersim.program.compute_pass import Work
from clustersim.program.template import Exchange, Template
from clustersim.program.traffic import Traffic
from clustersim.schedule.actions import Action, Schedule
from clustersim.schedule.strategy import Strategy

Result = tuple[str, int, int]
"""Direction (F, or B for backwards whole or split), stage, micro-batch."""


def add_pipeline(
    template: Template, schedule: Schedule, work: Sequence[Sequence[Work]], traffic: Traffic, strategy: Strategy
) -> None:
    """A send and a receive where a result is used on another rank; each action waits for its inputs.

    Receives are posted in the order in which the peer sends: ahead, or (``receives: late``) when the rank has nothing left to do before
    the action that needs it. Sends run beside the compute, or (``sends: blocking``) hold up what follows until they are across.
    InputError when an action uses what no rank produces.
    """
    units = [[list(together) for _, together in groupby(row, key=lambda one: one.item.unit)] for row in work]
    there: dict[Result, list[int]] = {}  # the ops after which a result is there, on the rank that made it
    received: dict[Result, int] = {}
    holding: dict[int, list[int]] = {}  # by the last compute op of a unit, the sends that must be across before anything follows
    for rank, row in enumerate(units):
        for unit, following in zip(row, [*row[1:], []], strict=True):
            for last in unit:
                if last.item.last and last.item.action.kind != "W":
                    key = _result(last.item.action, last.item.action.stage)
                    # What runs as one has no result before its end.
                    there[key] = list(dict.fromkeys([*last.results, unit[-1].compute]))
                    send = _send(template, schedule, rank, last, there[key], received, traffic)
                    if strategy.sends == "blocking" and send is not None and following:
                        template.dependencies += [(start, send) for start in following[0].starts]
                        holding.setdefault(unit[-1].compute, []).append(send)
    for rank, row in enumerate(units):
        used: dict[int, int] = {}  # receive -> the unit that needs it
        for position, unit in enumerate(row):
            starts = [start for one in unit if one.item.first for start in one.starts]
            for one in unit:
                for source in _inputs(schedule, one.item.action) if one.item.first else ():
                    ons = _available(schedule, one.item.action, source, there, received)
                    template.dependencies += [(start, on) for start in starts for on in ons]
                    if received.get(source) in ons:
                        used[received[source]] = position
        if strategy.receives == "late":
            _post_late(template, rank, row, used, holding)


def _post_late(
    template: Template, rank: int, units: Sequence[Sequence[Work]], used: dict[int, int], holding: dict[int, list[int]]
) -> None:
    """Each receive waits for what the rank does before the action that needs it, or one behind it in the peer's order."""
    for (pipeline, name, _), stream in template.streams.items():
        if pipeline != rank or name != "recv":
            continue
        earliest = len(units)
        for receive in reversed(stream):
            earliest = min(earliest, used.get(receive, earliest))
            if 0 < earliest < len(units):
                done = units[earliest - 1][-1].compute
                template.dependencies += [(receive, on) for on in (done, *holding.get(done, ()))]


def _result(action: Action, stage: int) -> Result:
    return "F" if action.kind == "F" else "B", stage, action.micro_batch


def _inputs(schedule: Schedule, action: Action) -> list[Result]:
    inputs = []
    if action.kind in "BI":
        inputs.append(("F", action.stage, action.micro_batch))
    source = schedule.source(action)
    if source is not None:
        inputs.append(_result(action, source))
    return inputs


def _send(
    template: Template, schedule: Schedule, rank: int, one: Work, after: list[int], received: dict[Result, int], traffic: Traffic
) -> int | None:
    """The send, None when the result is used on its own rank."""
    action, layer = one.item.action, one.item.layer
    target = schedule.target(action)
    if target is None or schedule.placement[target] == rank:
        return None
    to = schedule.placement[target]
    exchange = Exchange("pipeline", "send", rank, to, traffic.message_bytes)
    send = template.exchange(rank, "send", "send", action, layer, exchange, after, peer=to)
    received[_result(action, action.stage)] = template.op(
        to, "recv", "recv", target, layer, action.micro_batch, activity=template.activity[send], peer=rank
    )
    return send


def _available(
    schedule: Schedule, action: Action, source: Result, there: dict[Result, list[int]], received: dict[Result, int]
) -> list[int]:
    _, stage, micro_batch = source
    crosses = schedule.placement[stage] != schedule.placement[action.stage]
    on = [received[source]] if crosses and source in received else there.get(source)
    if on is None:
        missing = f"{stage}{source[0]}{micro_batch}"
        raise InputError(f"schedule {schedule.name}: {action} uses the result of {missing}, which no rank runs")
    return on
