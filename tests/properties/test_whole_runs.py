"""What holds in any run, whatever is drawn in :mod:`tests.properties.jobs`: order, conservation, capacity, the parts of time, the path."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from clustersim.analysis.overlap import rank_split, sweeps
from clustersim.analysis.ranks import rank_times
from clustersim.analysis.streams import read_ops, whole_window
from clustersim.engine.simulate import simulate
from clustersim.program.build import build_program
from clustersim.program.kinds import COMPUTE
from clustersim.simulation import simulate as run_experiment
from clustersim.trace.trace import from_outcome
from tests.analysis.test_path import found
from tests.properties.jobs import LENIENT, documents, experiment


@settings(max_examples=24, **LENIENT)
@given(documents())
def test_any_run_of_every_gpu(document):
    job = experiment(document)
    program = build_program(job, fold=False)
    trace = from_outcome(program, simulate(program))
    ops = trace.ops.astype(dict.fromkeys(("stream", "kind", "group"), str))
    assert_nothing_before_what_it_waits_for(trace)
    assert_one_at_a_time_and_first_in_first_out(program, ops)
    assert_order_of_the_layers(job, ops)
    assert_every_message_arrives(job, ops)
    assert_links_carry_all_bytes_and_no_more_than_they_can(program, trace)
    assert_memory_comes_back(trace.memory)
    assert_parts_of_time(trace, ops)
    assert_path(program, trace, ops)


def assert_nothing_before_what_it_waits_for(trace):
    start, end = trace.ops["start_ps"].to_numpy(), trace.ops["end_ps"].to_numpy()
    op, on = trace.dependencies["op"].to_numpy(), trace.dependencies["on"].to_numpy()
    ready = start - trace.ops["wait_ps"].to_numpy()
    assert (ready[op] >= end[on]).all() and (start >= ready).all() and (end >= start).all() and start.min() == 0


def assert_one_at_a_time_and_first_in_first_out(program, ops):
    start, end = ops["start_ps"].to_numpy(), ops["end_ps"].to_numpy()
    for stream in program.streams:
        order = stream.ops if stream.in_order else stream.ops[np.lexsort((end[stream.ops], start[stream.ops]))]
        assert (start[order[1:]] >= end[order[:-1]]).all(), stream.name
    assert sorted(itertools.chain(*(stream.ops.tolist() for stream in program.streams))) == list(range(program.ops))


def assert_order_of_the_layers(job, ops):
    """By the layers alone: forward upwards, backward downwards and after the forward, weights after inputs; all of it, once."""
    grid = job.grid
    lanes = {grid.rank(p, copy, t): (copy, t) for p in range(grid.pipeline) for copy in range(grid.copies) for t in range(grid.tensor)}
    work = ops[ops["kind"].isin(COMPUTE) & (ops["kind"] != "optimizer")].assign(lane=ops["rank"].map(lanes))
    work["kind"] = work["kind"].replace("input", "backward")
    of_layers = work[~work["name"].astype(str).str.contains("head|embedding")]
    span = of_layers.groupby(["kind", "lane", "micro_batch", "layer"]).agg(start=("start_ps", "min"), end=("end_ps", "max"))
    forward, backward = span.loc["forward"], span.loc["backward"]
    passes = job.schedule.passes * job.schedule.steps
    everything = len(lanes) // grid.pipeline * passes * job.model.layers
    assert len(forward) == len(backward) == everything
    assert (backward["start"] >= forward["end"]).all()
    for kind, step in ((forward, 1), (backward, -1)):
        ends, starts = (kind[name].to_numpy().reshape(-1, job.model.layers)[:, ::step] for name in ("end", "start"))
        assert (starts[:, 1:] >= ends[:, :-1]).all()
    if "weight" in span.index:
        weight = span.loc["weight"]
        assert (weight["start"] >= backward.loc[weight.index, "end"]).all()


def assert_every_message_arrives(job, ops):
    sent, got = (ops[ops["kind"] == kind].sort_values("start_ps") for kind in ("send", "recv"))
    here = dict(list(sent.groupby(["rank", "peer"])))
    there = dict(list(got.groupby(["peer", "rank"])))
    assert here.keys() == there.keys()
    for pair, rows in here.items():
        for name in ("start_ps", "end_ps", "micro_batch"):
            assert rows[name].tolist() == there[pair][name].tolist(), (pair, name)
    # Each boundary between ranks both ways, in elements of two bytes: the hidden states of all sequences.
    stages = len(job.schedule.placement) // job.schedule.pipes
    placement = job.schedule.placement[:stages]
    crossings = sum(one != other for one, other in itertools.pairwise(placement))
    tokens = job.global_batch * job.sequence * job.schedule.steps
    whole = 1 if job.sequence_parallel or job.strategy.scatter_gather else job.grid.tensor
    assert sent["bytes"].sum() == 2 * crossings * tokens * job.model.hidden * 2 * whole


def assert_links_carry_all_bytes_and_no_more_than_they_can(program, trace):
    use = trace.links.astype({"link": str})
    capacity = dict(zip(program.links.names, program.links.capacities_bytes_s, strict=True))
    assert all(rate <= capacity[link] * (1 + 1e-9) for link, rate in zip(use["link"], use["rate_bytes_s"], strict=True))
    seconds = (use["end_ps"] - use["start_ps"]) / 1e12
    moved = (use["rate_bytes_s"] * seconds).groupby(use["link"]).sum()
    pieces = use.groupby("link").size()
    for link, size in zip(program.links.names, program.link_bytes(), strict=True):
        rounded = pieces.get(link, 0) * capacity[link] / 1e12  # each piece to a picosecond
        assert moved.get(link, 0) == pytest.approx(size, rel=1e-6, abs=1 + rounded), link
        assert size / capacity[link] <= trace.makespan_ps / 1e12 * (1 + 1e-9), link
    for _, rows in use.groupby("link"):
        assert (rows["start_ps"].to_numpy()[1:] >= rows["end_ps"].to_numpy()[:-1]).all()


def assert_memory_comes_back(memory):
    """No level below zero; when all is done no activation or buffer is left."""
    levels = memory.assign(level=memory.groupby(["rank", "what"], observed=True)["bytes"].cumsum())
    for (rank, what), rows in levels.groupby(["rank", "what"], observed=True):
        assert (rows["level"] >= 0).all(), (rank, what)
        if what in ("activations", "buffers"):
            assert rows["level"].iloc[-1] == 0, (rank, what)


def assert_parts_of_time(trace, ops):
    """Counted anew, against the summary's and the analysis': between any two changes a rank computes or not, communicates or not."""
    read = read_ops(trace)
    split = pd.concat([rank_split(cut) for cut in sweeps(read, whole_window(read))]).set_index("rank")
    times = rank_times(trace).set_index("rank")
    for rank, rows in ops.groupby("rank"):
        edges = np.unique(np.concatenate([rows["start_ps"], rows["end_ps"], [0, trace.makespan_ps]]))
        on = {}
        for computes, some in rows.groupby(rows["kind"].isin(COMPUTE)):
            change = np.zeros(len(edges), dtype=int)
            np.add.at(change, np.searchsorted(edges, some["start_ps"]), 1)
            np.add.at(change, np.searchsorted(edges, some["end_ps"]), -1)
            on[computes] = np.cumsum(change)[:-1] > 0
        length, compute = np.diff(edges), on[True]
        talks = on.get(False, np.zeros_like(compute))
        expected = (length[compute].sum(), length[talks & ~compute].sum(), length[~talks & ~compute].sum())
        for counted in (times, split):
            assert tuple(counted.loc[rank, ["compute_ps", "exposed_ps", "idle_ps"]]) == expected
        assert sum(expected) == trace.makespan_ps


def assert_path(program, trace, ops):
    path, room = found(trace)
    assert path["start_ps"].iloc[0] == 0 and path["end_ps"].iloc[-1] == trace.makespan_ps
    assert (path["start_ps"].to_numpy()[1:] == path["end_ps"].to_numpy()[:-1]).all()
    assert (room >= 0).all() and (room[path["op"]] == 0).all() and "wait" not in set(path["kind"])
    computing = ops[ops["kind"].isin(COMPUTE)]
    assert (computing["end_ps"] - computing["start_ps"]).groupby(computing["rank"]).sum().max() <= trace.makespan_ps


@settings(max_examples=12, **LENIENT)
@given(documents())
def test_folded_and_whole_agree(document):
    """Where several shares of links are fair the two may find different ones, a thousandth apart."""
    job = experiment(document)
    folded, whole = run_experiment(job), run_experiment(job, fold=False)
    assert folded.summary["communication_bytes"] == whole.summary["communication_bytes"]
    for name in ("step_time_s", "exposed_communication_s", "idle_s", "bubble_of_total"):
        assert folded.summary[name] == pytest.approx(whole.summary[name], rel=2e-3, abs=1e-3 * whole.summary["step_time_s"]), name
    assert folded.summary["peak_memory_bytes"] == whole.summary["peak_memory_bytes"]
