"""The critical path is as long as the step; the slack of every op is what a longest-path oracle says."""

import itertools
from dataclasses import replace
from graphlib import TopologicalSorter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.analysis.answer import analyze
from clustersim.analysis.answer_text import document
from clustersim.analysis.path import build_graph, critical_path, path_by_kind, slack
from clustersim.analysis.streams import read_ops, whole_window
from clustersim.analysis.waits import find_activities
from clustersim.engine.simulate import simulate as run_program
from clustersim.errors import InputError
from clustersim.program.build import build_program
from clustersim.trace.trace import from_outcome
from tests.analysis.test_streams import trace
from tests.helpers import parsed, unit_cost

S = 10**12


def found(step):
    """Path and slack."""
    ops = read_ops(step)
    joined = find_activities(ops)
    graph = build_graph(ops, joined, step.dependencies)
    return critical_path(ops, joined, graph, whole_window(ops)[0]), slack(ops, joined, graph)


def rows(path):
    return path[["op", "kind", "start_ps", "end_ps"]].values.tolist()


def test_dependencies_and_streams():
    """0 (5) then 2 (4) on one stream; 1 (3) on another, which 2 waits for: 2 later would do."""
    ops = [(0, "a", "forward", 0, 5, 0, ""), (0, "b", "forward", 0, 3, 0, ""), (0, "a", "forward", 5, 9, 0, "")]
    path, room = found(trace(*ops, dependencies=[(2, 1)]))
    assert rows(path) == [[0, "forward", 0, 5], [2, "forward", 5, 9]]
    assert room.tolist() == [0, 2, 0]


def test_pieces_that_take_as_long_are_told_in_their_order():
    step = trace((0, "a", "forward", 0, 3, 0, ""), (0, "a", "backward", 3, 6, 0, ""), (0, "a", "optimizer", 6, 10, 0, ""))
    assert [row["kind"] for row in document(analyze(step))["critical_path"]["longest"]] == ["optimizer", "forward", "backward"]


def test_the_path_goes_through_the_last_member():
    step = trace(
        (0, "compute", "forward", 0, 2, 0, ""), (1, "compute", "forward", 0, 6, 0, ""),
        (0, "data", "reduce", 6, 9, 4, "0-1"), (1, "data", "reduce", 6, 9, 0, "0-1"),
        dependencies=[(2, 0), (3, 1)],
    )  # fmt: skip
    path, room = found(step)
    assert rows(path) == [[1, "forward", 0, 6], [2, "reduce", 6, 9]]
    assert room.tolist() == [4, 0, 0, 0]


def test_what_nothing_explains_is_a_wait():
    """Communication [0,10], compute [5,15]: nothing in the trace says why compute began at 5."""
    path, room = found(trace((0, "data", "reduce", 0, 10, 0, "g"), (0, "compute", "forward", 5, 15, 0, "")))
    assert rows(path) == [[1, "wait", 0, 5], [1, "forward", 5, 15]]
    assert room.tolist() == [5, 0]


def test_a_lag_stays_as_it_is():
    path, room = found(trace((0, "a", "forward", 0, 3, 0, ""), (0, "a", "forward", 6, 9, 0, "")))
    assert rows(path) == [[0, "forward", 0, 3], [1, "wait", 3, 6], [1, "forward", 6, 9]]
    assert room.tolist() == [0, 0]


def test_ops_without_a_duration_on_a_readiness_ordered_stream():
    """At 3 op 1 (a gather) waits for op 2 (a reduction): their order on the stream is not that of their numbers."""
    step = trace(
        (0, "compute", "forward", 0, 3, 0, ""), (0, "data", "gather", 3, 3, 0, "g"), (0, "data", "reduce", 3, 3, 0, "g"),
        (0, "compute", "forward", 3, 5, 0, ""), dependencies=[(1, 2), (2, 0), (3, 1)],
    )  # fmt: skip
    path, room = found(step)
    assert path["end_ps"].tolist() == [3, 5] and room.tolist() == [0, 0, 0, 0]


def test_circles_and_broken_dependencies_are_refused():
    zero = [(0, "a", "forward", 1, 1, 0, ""), (0, "b", "forward", 1, 1, 0, "")]
    with pytest.raises(InputError, match="circle"):
        found(trace(*zero, dependencies=[(0, 1), (1, 0)]))
    with pytest.raises(InputError, match="op 7 is not in the table"):
        found(trace(*zero, dependencies=[(0, 7)]))
    with pytest.raises(InputError, match="dependencies: column missing: on"):
        found(replace(trace(*zero, dependencies=[(0, 1)]), dependencies=pd.DataFrame({"op": [0]})))
    twice = trace(*zero, dependencies=[(1, 1)])
    with pytest.raises(InputError, match="ops: two have the same number"):
        found(replace(twice, ops=twice.ops.assign(op=[1, 1])))
    with pytest.raises(InputError, match="op 1 is ready before op 0, which it waits for, has ended"):
        found(trace((0, "a", "forward", 0, 4, 0, ""), (0, "b", "forward", 3, 5, 0, ""), dependencies=[(1, 0)]))


def test_measured_traces_follow_what_the_rank_did():
    """Launched while the kernel ran: the path has no wait but where the rank was idle."""
    path, _ = found(trace((0, "7", "kernel", 0, 6, 0, ""), (0, "9", "all_reduce", 4, 8, 0, ""), (0, "7", "kernel", 9, 12, 0, "")))
    assert rows(path) == [[0, "kernel", 0, 4], [1, "all_reduce", 4, 8], [2, "wait", 8, 9], [2, "kernel", 9, 12]]


def test_measured_traces_go_to_the_rank_that_came_last():
    early = [(0, "7", "kernel", 0, 2, 0, ""), (0, "9", "all_reduce", 2, 8, 3, "g")]
    path, _ = found(trace(*early, (1, "7", "kernel", 0, 5, 0, ""), (1, "9", "all_reduce", 5, 8, 0, "g")))
    assert rows(path) == [[2, "kernel", 0, 5], [1, "all_reduce", 5, 8]]


def test_a_kernel_begins_while_the_collective_before_it_still_waits():
    """Rank 0 is in the all-reduce from 2 and begins a kernel at 4; rank 1 comes at 5. The all-reduce's wait is what rank 0 did before."""
    path, _ = found(trace(
        (0, "7", "kernel", 0, 2, 0, ""), (0, "9", "all_reduce", 2, 8, 3, "g"), (0, "7", "kernel", 4, 20, 0, ""),
        (1, "7", "kernel", 0, 5, 0, ""), (1, "9", "all_reduce", 5, 8, 0, "g"),
    ))  # fmt: skip
    assert rows(path) == [[0, "kernel", 0, 2], [1, "all_reduce", 2, 4], [2, "kernel", 4, 20]]


@pytest.mark.parametrize(("delay", "messages"), [("0 s", 0), ("250 ms", 4)])
def test_one_f_one_b(delay, messages):
    """p = 4, m = 8, F = 1, B = 2: (m+p-1)(F+B) = 33; a delay of 0.25 adds 4."""
    step = unit_cost(4, 4, 8, "1f1b", forward=1, backward=2, extra=f"link_delay: {delay}").trace
    path, _ = found(step)
    times = path_by_kind(path, (0, step.makespan_ps))
    assert times == {"backward": 22 * S, "forward": 11 * S, **({"recv": messages * S} if messages else {})}


class Oracle:
    """The longest path through a program, with the order of streams and the lengths of transfers as they were simulated."""

    def __init__(self, program, outcome):
        _, self.node = np.unique(np.where(program.activity < 0, -1 - np.arange(program.ops), program.activity), return_inverse=True)
        self.length = dict(zip(self.node.tolist(), (outcome.end_ps - outcome.start_ps).tolist(), strict=True))
        self.before = {node: [] for node in self.length}
        for op, on in zip(program.dependency_op, program.dependency_on, strict=True):
            self.before[self.node[op]].append((self.node[on], True))
        for stream in program.streams:
            row = list(stream.ops) if stream.in_order else sorted(stream.ops, key=lambda op: outcome.start_ps[op])
            for one, other in itertools.pairwise(row):
                transfer = program.activity_transfer[program.activity[one]] if program.activity[one] >= 0 else None
                holds = transfer is None or not program.transfers[transfer].delay_ps
                self.before[self.node[other]].append((self.node[one], holds))
        self.order = list(TopologicalSorter({node: [one for one, _ in ones] for node, ones in self.before.items()}).static_order())

    def makespan(self, longer=-1, by=0):
        start, end = {}, {}
        for node in self.order:
            start[node] = max((end[one] if holds else start[one] for one, holds in self.before[node]), default=0)
            end[node] = start[node] + self.length[node] + (by if node == longer else 0)
        return max(end.values())


JOB = """
model: {{layers: {layers}, hidden: 256, heads: 4}}
cluster: {cluster}
parallel: {{pipeline: {pipeline}, tensor: {tensor}, data: {data}}}
strategy: {{name: {name}, partition: {partition}}}
batch: {{global: {batch}, micro: 1, sequence: 128}}
{extra}
"""


@st.composite
def jobs(draw):
    """A small job of :data:`JOB`, and its stages."""
    pipeline, replicas = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    text = JOB.format(
        layers=2 * pipeline,
        cluster=draw(st.sampled_from(["dgx-a100", "pcie-ethernet", "ideal"])),
        pipeline=pipeline,
        tensor=draw(st.integers(1, 2)),
        data=replicas,
        name=draw(st.sampled_from(["standard", "lga", "mpp", "gpipe"])),
        partition=draw(st.sampled_from(["none", "optimizer", "parameters"])),
        batch=draw(st.integers(1, 4)) * replicas,
        extra="",
    )
    return text, pipeline


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_path_and_slack_of_random_jobs(data):
    pipeline, replicas = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    ideal = data.draw(st.booleans())
    text = JOB.format(
        layers=2 * pipeline,
        cluster="ideal" if ideal else data.draw(st.sampled_from(["dgx-a100", "pcie-ethernet"])),
        pipeline=pipeline,
        tensor=1 if ideal else data.draw(st.integers(1, 2)),
        data=1 if ideal else replicas,
        name=data.draw(st.sampled_from(["standard", "lga", "mpp", "gpipe"])),
        partition=data.draw(st.sampled_from(["none", "optimizer", "parameters"])),
        batch=data.draw(st.integers(1, 4)) * (1 if ideal else replicas),
        extra="link_delay: 3 us" if ideal else "",
    )
    program = build_program(parsed(text), data.draw(st.booleans()))
    outcome = run_program(program)
    step = from_outcome(program, outcome)
    path, room = found(step)

    assert path["start_ps"].iloc[0] == 0 and path["end_ps"].iloc[-1] == step.makespan_ps
    assert (path["start_ps"].to_numpy()[1:] == path["end_ps"].to_numpy()[:-1]).all()
    assert "wait" not in set(path["kind"]), "a simulated op begins when something lets it"
    assert (room >= 0).all() and (room[path["op"]] == 0).all()

    oracle = Oracle(program, outcome)
    assert oracle.makespan() == step.makespan_ps
    for op in data.draw(st.lists(st.integers(0, program.ops - 1), min_size=8, max_size=8)):
        node, more = oracle.node[op], int(room[op])
        assert oracle.makespan(node, more) == step.makespan_ps
        assert oracle.makespan(node, more + 1) == step.makespan_ps + 1


def test_long_chains_without_a_duration():
    """All at once, hundreds of ops that wait for one another: no time, no slack, and an answer."""
    path, room = found(unit_cost(2, 2, 80, "standard", forward=0, backward=0).trace)
    assert not len(path) and not room.any()


def test_the_rows_of_a_trace_may_come_in_any_order():
    step = unit_cost(8, 4, 6, "mpp", data=2, cost=", reduce: 2 s").trace
    mixed = step.ops.sample(frac=1, random_state=3)
    one, other = found(step), found(type(step)(mixed, step.dependencies, step.links, step.memory))
    assert path_by_kind(one[0], (0, step.makespan_ps)) == path_by_kind(other[0], (0, step.makespan_ps))
    assert (one[1][mixed.index] == other[1]).all()


def test_twice_the_same():
    step = unit_cost(8, 4, 6, "mpp", data=2, cost=", reduce: 2 s").trace
    assert found(step)[0].equals(found(step)[0])
