"""An independent clock for schedules: the longest path through the actions, without engine, links or layers."""

from clustersim.schedule.actions import Overlap, single


def run(schedule, times, delay=0.0, overlap=None):
    """End times by action of ``times`` (by letter, of one stage and micro-batch), ``delay`` between ranks; ``overlap`` of a pair.

    Fails when the schedule cannot make progress.
    """
    overlap = times["F"] + times["B"] if overlap is None else overlap
    position, clock, end = [0] * schedule.ranks, [0.0] * schedule.ranks, {}
    left = sum(map(len, schedule.actions))
    while left:
        before = left
        for rank, actions in enumerate(schedule.actions):
            while position[rank] < len(actions):
                one = actions[position[rank]]
                inputs = [ready(schedule, action, end, delay) for action in single([one])]
                if None in inputs:
                    break
                clock[rank] = max(clock[rank], *inputs) + (overlap if isinstance(one, Overlap) else times[one.kind])
                end.update(dict.fromkeys(single([one]), clock[rank]))
                position[rank] += 1
                left -= 1
        stuck = [str(actions[at]) for actions, at in zip(schedule.actions, position, strict=True) if at < len(actions)]
        assert left < before, f"no progress at {stuck}"
    return end


def ready(schedule, action, end, delay):
    """When an action has what it needs, None when that is not there yet."""
    kind, stage, micro_batch = action
    inputs = []
    if kind in "BI":
        inputs.append(end.get(("F", stage, micro_batch)))
    if kind == "W":
        inputs.append(end.get(("I", stage, micro_batch)))
    source = schedule.source(action)
    if source is not None:
        letters = "F" if kind == "F" else "BI"
        arrived = [end[letter, source, micro_batch] for letter in letters if (letter, source, micro_batch) in end]
        crosses = schedule.placement[source] != schedule.placement[stage]
        inputs.append(arrived[0] + (delay if crosses else 0) if arrived else None)
    return None if None in inputs else max(inputs, default=0.0)


def makespan(schedule, forward=1.0, backward=2.0, input=1.0, weight=1.0, delay=0.0, overlap=None):
    """Of a whole rank and micro-batch each, as in closed_forms: a stage takes its part. Bubbles: makespan less the work of a rank."""
    parts = schedule.stages / schedule.ranks * schedule.slices
    times = {"F": forward / parts, "B": backward / parts, "I": input / parts, "W": weight / parts}
    return max(run(schedule, times, delay, None if overlap is None else overlap / parts).values())


def check(schedule):
    """Every stage does every one of its micro-batches once, whole, on its own rank, in a legal order."""
    passes = schedule.micro_batches * schedule.slices
    per_pipe = passes // schedule.pipes
    seen = {}
    for rank, actions in enumerate(schedule.actions):
        for action in single(actions):
            assert schedule.placement[action.stage] == rank, action
            assert action not in seen, action
            seen[action] = len(seen)
    for stage in range(len(schedule.placement)):
        pipe = stage // schedule.stages
        for micro_batch in range(pipe * per_pipe, (pipe + 1) * per_pipe):
            forward, full = ("F", stage, micro_batch), ("B", stage, micro_batch)
            halves = [("I", stage, micro_batch), ("W", stage, micro_batch)]
            assert forward in seen
            assert (full in seen) != all(half in seen for half in halves)
            assert (full in seen) or seen[forward] < seen[halves[0]] < seen[halves[1]]
            assert (full not in seen) or (seen[forward] < seen[full] and not any(half in seen for half in halves))
    assert sum(action.kind == "F" for action in seen) == passes * schedule.stages
