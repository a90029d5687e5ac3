"""The answer in words and as a document; comparisons."""

import itertools
import json

import pandas as pd
import pytest

from clustersim.analysis.answer import analyze
from clustersim.analysis.answer_links import kinds_used, link_use, read_loads, use_over_time, utilization_during
from clustersim.analysis.answer_text import document, limits
from clustersim.analysis.answer_window import given_facts, run_window
from clustersim.analysis.diff import changes, difference, difference_document
from clustersim.analysis.facts import TraceFacts
from clustersim.analysis.idle import CAUSES
from clustersim.analysis.intervals import union
from clustersim.analysis.memory import peaks
from clustersim.errors import InputError
from tests.analysis.test_streams import trace
from tests.helpers import simulated, unit_cost

S = 10**12


def reduction(length_s):
    """4 s of compute, 2 of which hide a reduction; a link used at 97 % while it is exposed."""
    step = trace((0, "compute", "forward", 0, 4 * S, 0, ""), (0, "data", "reduce", 2 * S, (2 + length_s) * S, 0, "0-1"))
    links = pd.DataFrame({"link": ["x"], "start_ps": [2 * S], "end_ps": [(2 + length_s) * S], "rate_bytes_s": [97.0]})
    return type(step)(step.ops, step.dependencies, links, step.memory)


TOTALS = pd.DataFrame({"link": ["x"], "kind": ["network"], "links": [4], "capacity_bytes_s": [100]})


def test_exposed_reduction_on_a_busy_network():
    found = analyze(reduction(6), None, TOTALS)
    assert limits(found) == "50 % of the step is exposed gradient reduction on network links at 97 % utilization; 50 % is compute"
    [row] = document(found)["ranks"]
    assert (row["compute_s"], row["communication_s"], row["exposed_communication_s"], row["idle_s"]) == (4, 6, 4, 0)
    assert row["overlap"] == pytest.approx(1 / 3) and row["compute_under_communication"] == 0.5
    assert document(found)["communication"] == [
        {"kind": "data", "communication_s": 6, "exposed_communication_s": 4, "overlap": 1 / 3, "compute_under_communication": 0.5}
    ]
    assert document(found)["links"]["network"]["mean_utilization"] == pytest.approx(0.97 * 6 / 8)


def test_the_whole_document_of_a_window_by_hand():
    """Rank 0 is ready to reduce at 2, rank 1 at 6; both compute again at 9. Of the 11 s those from 1 to 10."""
    step = trace(
        (0, "compute", "forward", 0, 2 * S, 0, ""), (1, "compute", "forward", 0, 6 * S, 0, ""),
        (0, "data", "reduce", 6 * S, 9 * S, 4 * S, "0-1"), (1, "data", "reduce", 6 * S, 9 * S, 0, "0-1"),
        (0, "compute", "optimizer", 9 * S, 10 * S, 0, ""), (1, "compute", "optimizer", 9 * S, 11 * S, 0, ""),
        dependencies=[(2, 0), (3, 1), (4, 2), (5, 3)],
    )  # fmt: skip
    window = S, 10 * S
    found = document(analyze(step, window, facts=given_facts(window)))
    assert (found["window_s"], found["window_begin_s"], found["compute_s"], found["wait_s"], found["overlap"]) == (9, 1, 4, 2, 0)
    assert {name: found["window"][name] for name in ("begin_s", "end_s", "steps")} == {"begin_s": 1, "end_s": 10, "steps": 1}
    assert (found["bubble_of_total"], found["bubble_of_ideal"]) == (5 / 9, 5 / 4)
    assert found["exposed_communication_s"] == {"data": 3} and {name: time for name, time in found["idle_s"].items() if time} == {"peer": 2}
    rank = {
        "rank": 0, "stands_for": 1, "compute_s": 2, "communication_s": 3, "hidden_communication_s": 0, "exposed_communication_s": 3,
        "contended_communication_s": 0, "idle_s": 4, "wait_s": 4, "overlap": 0, "compute_under_communication": 0,
        "compute_utilization": 2 / 9, "bubble_of_total": 7 / 9, "bubble_of_ideal": 7 / 2, "peak_memory_bytes": None,
        "peak_memory_at_s": None, "exposed_by_kind_s": {"data": 3}, "idle_by_cause_s": dict.fromkeys(CAUSES, 0) | {"peer": 4},
    }  # fmt: skip
    other = rank | {
        "rank": 1, "compute_s": 6, "idle_s": 0, "wait_s": 0, "compute_utilization": 6 / 9, "bubble_of_total": 3 / 9,
        "bubble_of_ideal": 3 / 6,
        "idle_by_cause_s": dict.fromkeys(CAUSES, 0),
    }  # fmt: skip
    assert found["ranks"] == [rank, other]
    streams = [(0, "compute", 2, 2), (0, "data", 1, 3), (1, "compute", 2, 6), (1, "data", 1, 3)]
    assert found["streams"] == [
        {"rank": rank, "stream": stream, "ops": ops, "busy_s": busy, "utilization": busy / 9} for rank, stream, ops, busy in streams
    ]
    assert found["communication"] == [
        {"kind": "data", "communication_s": 3, "exposed_communication_s": 3, "overlap": 0, "compute_under_communication": 0}
    ]
    path = found["critical_path"]
    assert list(path["by_kind_s"].items()) == [("forward", 5), ("reduce", 3), ("optimizer", 1)]
    assert path["share_by_kind"] == {"forward": 5 / 9, "reduce": 3 / 9, "optimizer": 1 / 9}
    assert (path["length_s"], path["pieces"]) == (9, 3)
    assert path["longest"] == [
        {"op": 1, "rank": 1, "kind": "forward", "start_s": 1, "time_s": 5},
        {"op": 3, "rank": 1, "kind": "reduce", "start_s": 6, "time_s": 3},
        {"op": 5, "rank": 1, "kind": "optimizer", "start_s": 9, "time_s": 1},
    ]  # fmt: skip
    assert found["slack"] == {"ops": 6, "without_slack": 4, "mean_s": 5 / 6, "greatest_s": 4}  # 4 of the first forward, 1 of an optimizer
    assert found["waits"] == [
        {"family": "data", "kind": "reduce", "ops": 2, "wait_s": 4, "longest_wait_s": 4, "transfer_s": 6, "contention_s": 0}
    ]
    assert found["stragglers"] == [
        {"rank": 1, "stands_for": 1, "compute_over_median": 3, "idle_of_others_s": 4, "waited_for_s": 4, "collectives": 1}
    ]


def test_waits_that_are_known_are_told():
    """Messages of a simulated trace wait openly, kernels that send or receive do so unseen."""
    step = trace((0, "send:1", "send", 5 * S, 7 * S, 0, "0-1"), (1, "recv:0", "recv", 5 * S, 7 * S, 5 * S, "0-1"))
    assert {row["kind"]: row["wait_s"] for row in document(analyze(step))["waits"]} == {"send": 0, "recv": 5}
    kernels = [(0, "7", "kernel", 0, 2 * S, 0, ""), (0, "9", "all_reduce", 2 * S, 6 * S, S, "g"), (0, "8", "send", 6 * S, 8 * S, 0, "0-1")]
    assert {row["kind"]: row["wait_s"] for row in document(analyze(trace(*kernels)))["waits"]} == {"all_reduce": 1, "send": None}


def test_a_mean_need_not_be_whole_picoseconds():
    step = trace((0, "data", "reduce", 0, 3, 0, "b"), (1, "compute", "forward", 0, 4, 0, ""))
    [row] = document(analyze(step))["communication"]
    assert row["communication_s"] == row["exposed_communication_s"] == 1.5e-12


def test_kinds_of_communication_come_in_their_order():
    step = trace((0, "data", "reduce", 0, 3, 0, "b"), (0, "tensor", "tensor", 3, 7, 0, "a"), (0, "compute", "forward", 7, 9, 0, ""))
    assert list(document(analyze(step))["exposed_communication_s"]) == ["tensor", "data"]


def test_the_rank_that_costs_most_comes_first():
    """Rank 0 waits 4 for rank 1, rank 3 waits 6 for rank 2."""
    step = trace(
        *((rank, "compute", "forward", 0, end * S, 0, "") for rank, end in enumerate((2, 6, 8, 2))),
        *((rank, "data", "reduce", 6 * S, 9 * S, wait * S, "0-1") for rank, wait in ((0, 4), (1, 0))),
        *((rank, "data", "reduce", 8 * S, 9 * S, wait * S, "2-3") for rank, wait in ((2, 0), (3, 6))),
        *((rank, "compute", "optimizer", 9 * S, 10 * S, 0, "") for rank in range(4)),
        dependencies=[(4, 0), (5, 1), (6, 2), (7, 3), (8, 4), (9, 5), (10, 6), (11, 7)],
    )
    rows = document(analyze(step))["stragglers"]
    assert [(row["rank"], row["idle_of_others_s"], row["waited_for_s"]) for row in rows] == [(2, 6, 6), (1, 4, 4)]


def test_the_use_of_links_is_that_of_exposed_communication():
    step = reduction(6)
    links = pd.DataFrame({"link": "x", "start_ps": [2 * S, 4 * S], "end_ps": [4 * S, 8 * S], "rate_bytes_s": [20.0, 97.0]})
    assert " on network links at 97 % utilization" in limits(analyze(type(step)(step.ops, step.dependencies, links, step.memory), None,
                                                                     TOTALS))


def test_links_of_hidden_communication_limit_nothing():
    found = analyze(reduction(2), None, TOTALS)
    assert found.limiting_links == {} and limits(found) == "compute: 100 % of the step is compute"
    assert document(found)["links"]["network"]["mean_utilization"] == pytest.approx(0.97 * 2 / 4)


@pytest.mark.parametrize(("name", "window"), [("x", (5, 5)), ("y", (0, 8 * S))])
def test_no_use_over_time_in_no_time_or_of_links_that_carry_nothing(name, window):
    found = use_over_time(reduction(6).links, TOTALS.assign(link=name), window)
    assert not len(found) and list(found) == ["kind", "begin_s", "end_s", "mean_utilization", "busiest_utilization"]


def test_a_step_that_took_no_time_before():
    none, some = (analyze(trace((0, "compute", "forward", 0, end * S, 0, ""))) for end in (0, 8))
    assert difference(none, some) == "from 0 s to 8 s; most of all compute went from 0 s to 8 s"
    assert difference(some, none) == "from 8 s to 0 s; most of all compute went from 8 s to 0 s, 100 % of A"
    assert difference(none, none) == "B takes as long as A, 0 s; no part of it changed"


def test_compute_limits_when_it_is_nearly_all():
    assert limits(analyze(unit_cost(4, 1, 2, "standard").trace)) == "compute: 100 % of the step is compute"
    almost = trace((0, "compute", "forward", 0, 95, 0, ""), (0, "data", "reduce", 95, 100, 0, "g"))
    assert limits(analyze(almost)) == "compute: 95 % of the step is compute; the largest loss is 5 % exposed gradient reduction"


def test_compute_comes_first_from_three_quarters_of_the_step():
    step = trace((0, "compute", "forward", 0, 81, 0, ""), (0, "data", "reduce", 81, 100, 0, "g"))
    assert limits(analyze(step)) == "compute: 81 % of the step is compute; the largest loss is 19 % exposed gradient reduction"


def test_a_pipeline_is_limited_by_its_bubble():
    found = analyze(unit_cost(4, 4, 8, "1f1b", forward=1, backward=2).trace)
    words = "27 % of the step is idle in the pipeline (waiting for data 14 %, drain 9.1 %, warm-up 4.5 %); 73 % is compute"
    assert limits(found) == words
    figures = document(found)
    assert figures["bubble_of_total"] == pytest.approx(9 / 33) and figures["bubble_of_ideal"] == pytest.approx(9 / 24)


def test_no_communication_is_none_and_never_nan():
    text = json.dumps(document(analyze(unit_cost(4, 2, 2, "standard").trace)), allow_nan=False)
    assert all(row["overlap"] is None for row in json.loads(text)["ranks"])


def test_nothing_takes_time():
    found = analyze(unit_cost(1, 1, 1, "standard", forward=0, backward=0).trace)
    assert limits(found) == "nothing: the step takes no time"
    assert document(found)["bubble_of_total"] is None


JOB = """
model: {layers: 4, hidden: 256, heads: 4}
cluster: pcie-ethernet
parallel: {pipeline: 2, tensor: 2, data: 2}
strategy: {name: mpp}
batch: {global: 8, micro: 1, sequence: 128}
"""


def test_the_summary_says_the_same():
    run = simulated(JOB, fold=False)
    figures = document(analyze(run.trace, None, run.links))
    rows = pd.DataFrame(figures["ranks"])
    for name in ("overlap", "exposed_communication_s", "idle_s", "bubble_of_total"):
        assert rows[name].mean() == pytest.approx(run.summary[name])
    assert figures["bubble_of_ideal"] == pytest.approx(run.summary["bubble_of_ideal"])
    for kind, use in figures["links"].items():
        assert use["mean_utilization"] == pytest.approx(run.summary["links"][kind]["mean_utilization"])
        assert use["peak_utilization"] == pytest.approx(run.summary["links"][kind]["peak_utilization"])


def test_parts_of_the_document_add_up():
    figures = document(analyze(simulated(JOB).trace))
    for row in figures["ranks"]:
        assert sum(row["idle_by_cause_s"].values()) == pytest.approx(row["idle_s"])
        assert sum(row["exposed_by_kind_s"].values()) == pytest.approx(row["exposed_communication_s"])
    whole = figures["compute_s"] + sum(figures["exposed_communication_s"].values()) + sum(figures["idle_s"].values())
    assert whole == pytest.approx(figures["window_s"])
    assert sum(figures["critical_path"]["by_kind_s"].values()) == pytest.approx(figures["critical_path"]["length_s"])


def test_links_over_time():
    """97 % from 2 to 8 s of 8: 60 bins, of which the first quarter is empty."""
    rows = document(analyze(reduction(6), None, TOTALS))["links_over_time"]
    assert {row["kind"] for row in rows} == {"network"} and [row["begin_s"] for row in rows[:2]] == [0, pytest.approx(8 / 60)]
    assert [row["mean_utilization"] for row in rows] == [0.0] * 15 + [pytest.approx(0.97)] * 45
    assert [row["busiest_utilization"] for row in rows[14:16]] == [0, pytest.approx(0.97)]


def test_the_peak_of_memory_and_when():
    step = trace((0, "compute", "forward", 0, 8 * S, 0, ""), (1, "compute", "forward", 0, 8 * S, 0, ""))
    held = pd.DataFrame({"rank": 0, "time_ps": [0, 2 * S, 5 * S], "bytes": [10, 7, -7], "what": "weights"})
    rows = document(analyze(type(step)(step.ops, step.dependencies, step.links, held)))["ranks"]
    assert [(row["peak_memory_bytes"], row["peak_memory_at_s"]) for row in rows] == [(17, 2), (None, None)]


def test_nothing_is_held_where_no_memory_is_told():
    assert peaks(pd.DataFrame({"rank": [], "time_ps": [], "bytes": []})) == {}


def test_bandwidths_of_a_simulated_trace():
    """Two ranks send 6 GB each in 4 s, one of them after a wait of 2 s."""
    step = trace(*((rank, "data", "reduce", 2 * S, 6 * S, (1 - rank) * 2 * S, "0-1") for rank in (0, 1)))
    ops = step.ops.assign(bytes=6 * 10**9)
    assert document(analyze(type(step)(ops, step.dependencies, step.links, step.memory)))["collectives"] == [
        {"collective": "reduce", "group": None, "count": 2, "bytes": 12 * 10**9, "time_s": 8, "wait_s": 2, "algbw_bytes_s": None,
         "busbw_bytes_s": 1.5e9}
    ]  # fmt: skip


def test_means_are_over_the_ranks_of_the_job():
    """Rank 0 stands for three and computes 4 of 10 s, rank 1 for itself 8; both reduce for 2 s without hiding it."""
    step = trace(
        (0, "compute", "forward", 0, 4 * S, 0, ""), (1, "compute", "forward", 0, 8 * S, 0, ""),
        (0, "data", "reduce", 8 * S, 10 * S, 4 * S, "0-1"), (1, "data", "reduce", 8 * S, 10 * S, 0, "0-1"),
    )  # fmt: skip
    figures = document(analyze(step, facts=TraceFacts(stands_for={0: 3, 1: 1})))
    assert (figures["compute_s"], figures["exposed_communication_s"], figures["wait_s"]) == (5, {"data": 2}, 3)
    assert sum(figures["idle_s"].values()) == 3 and figures["bubble_of_total"] == 0.5
    assert figures["communication"][0]["compute_under_communication"] == 0
    assert [row["stands_for"] for row in figures["ranks"]] == [3, 1]
    [row] = figures["collectives"]
    assert (row["count"], row["time_s"], row["wait_s"]) == (4, 8, 12)
    assert [(row["kind"], row["ops"], row["wait_s"], row["longest_wait_s"]) for row in figures["waits"]] == [("reduce", 4, 12, 4)]
    assert figures["stragglers"] == [
        {"rank": 1, "stands_for": 1, "compute_over_median": 2, "idle_of_others_s": 12, "waited_for_s": 12, "collectives": 1}
    ]
    assert figures["limits"] == (
        "40 % of the step on the other ranks is waiting for rank 1, which computes 100 % longer than its peers (median) for the same work;"
        " 50 % is compute"
    )


def test_a_late_rank_that_stands_for_others():
    """Two of eight ranks compute 8 of 10 s, the others 4: those wait 6 x 4 s, which is 4 of 10 s on each of them."""
    step = trace(
        (0, "compute", "forward", 0, 4 * S, 0, ""), (1, "compute", "forward", 0, 8 * S, 0, ""),
        (0, "data", "reduce", 8 * S, 10 * S, 4 * S, "0-1"), (1, "data", "reduce", 8 * S, 10 * S, 0, "0-1"),
    )  # fmt: skip
    figures = document(analyze(step, facts=TraceFacts(stands_for={0: 6, 1: 2})))
    assert figures["limits"].startswith("40 % of the step on the other ranks is waiting for rank 1 (one of 2 alike), which computes 100 %")
    [row] = figures["stragglers"]
    assert (row["stands_for"], row["idle_of_others_s"], row["waited_for_s"], row["collectives"]) == (2, 24, 24, 2)


def test_a_rank_that_a_contended_link_holds_up_is_not_to_blame():
    """Twenty ranks compute 9 of 14 s and wait 4 for one, 3 of them for its third reduction, which takes 5 s where 2 would do."""
    step = trace(
        *((1, "data", "reduce", start * S, end * S, 0, "1") for start, end in ((0, 2), (2, 7), (7, 12))),
        (1, "tensor", "tensor", 12 * S, 13 * S, 0, "0-1"), (0, "tensor", "tensor", 12 * S, 13 * S, 4 * S, "0-1"),
        (0, "compute", "optimizer", 0, 8 * S, 0, ""), (0, "compute", "forward", 13 * S, 14 * S, 0, ""),
        (1, "compute", "forward", 13 * S, 14 * S, 0, ""), dependencies=[(3, 2), (4, 5), (6, 4), (7, 3)],
    )  # fmt: skip
    found = analyze(step, facts=TraceFacts(stands_for={0: 20, 1: 1}))
    assert limits(found) == "20 % of the step is idle: waiting for ranks held up on contended links; 62 % is compute"


def test_a_late_rank_beside_a_greater_loss():
    """Measured: 12 and 17 of 20 us idle; rank 0 waits 5 us in its collective for rank 1, most of what is exposed."""
    us = 10**6
    step = trace(
        (0, "7", "kernel", 0, us, 0, ""), (1, "7", "kernel", 0, us, 0, ""), (0, "7", "kernel", 19 * us, 20 * us, 0, ""),
        (1, "7", "kernel", 19 * us, 20 * us, 0, ""), (0, "9", "all_reduce", us, 7 * us, 5 * us, "g"),
        (1, "9", "all_reduce", 6 * us, 7 * us, 0, "g"),
    )  # fmt: skip
    assert limits(analyze(step)) == (
        "72 % of the trace is idle: nothing to do, and 25 % on the other ranks waiting for rank 1, which comes last to collectives;"
        " 10 % is compute"
    )


def test_a_measured_trace_without_sizes_and_groups():
    step = trace((0, "7", "kernel", 0, 2, 0, ""), (0, "9", "all_reduce", 2, 6, 1, "g"))
    bare = type(step)(step.ops[["rank", "stream", "kind", "start_ps", "end_ps"]], step.dependencies, step.links, step.memory)
    [row] = document(analyze(bare))["collectives"]
    assert (row["count"], row["bytes"], row["time_s"], row["algbw_bytes_s"]) == (1, None, 4e-12, None)


def test_twice_the_same():
    run = simulated(JOB)
    assert document(analyze(run.trace, None, run.links)) == document(analyze(run.trace, None, run.links))


def test_what_changed():
    a, b = analyze(reduction(6)), analyze(reduction(4))
    assert difference(a, b) == (
        "B is 1.33 times as fast as A (8 s to 6 s); most of all exposed gradient reduction went from 4 s to 2 s, 25 % of A"
    )
    assert changes(a, b) == [("exposed gradient reduction", 4 * S, 2 * S), ("compute", 4 * S, 4 * S)]
    assert difference(a, a) == "B takes as long as A, 8 s; no part of it changed"
    assert difference(b, a).startswith("B is 1.33 times as slow as A (6 s to 8 s)")
    assert sum(row["change_s"] for row in difference_document(a, b)["changes"]) == -2


def test_windows_are_not_said_to_be_fast_or_slow():
    a, b = (analyze(reduction(6), window, facts=given_facts(window)) for window in ((0, 8 * S), (0, 6 * S)))
    assert difference(a, b) == (
        "the windows are 8 s of A and 6 s of B; most of all exposed gradient reduction went from 4 s to 2 s, 25 % of A"
    )


def test_sums_are_those_of_the_mean_step():
    """Four reductions of two ranks in two steps: half of all that. In eight steps half a reduction each."""
    step = trace(*((rank, "data", "reduce", at * S, (at + 2) * S, (1 - rank) * S, "0-1") for at in (1, 5, 9, 13) for rank in (0, 1)))
    figures = document(analyze(step, facts=TraceFacts(steps=2)))
    [row] = figures["collectives"]
    assert (row["count"], row["time_s"], row["wait_s"], row["busbw_bytes_s"]) == (4, 8, 2, None)
    [row] = figures["waits"]
    assert (row["ops"], row["wait_s"], row["longest_wait_s"], row["transfer_s"]) == (4, 2, 1, 8)
    [row] = figures["stragglers"]
    assert (row["rank"], row["waited_for_s"], row["collectives"]) == (1, 2, 2)
    [row] = document(analyze(step, facts=TraceFacts(steps=8)))["waits"]
    assert (row["ops"], row["wait_s"], row["longest_wait_s"], row["transfer_s"]) == (1, 0.5, 1, 2)


def test_a_window():
    found = analyze(reduction(6), (3 * S, 5 * S), TOTALS, given_facts((3 * S, 5 * S)))
    assert limits(found) == "50 % of the window is exposed gradient reduction on network links at 97 % utilization; 50 % is compute"
    assert found.ranks[["compute_ps", "exposed_ps", "idle_ps"]].values.tolist() == [[S, S, 0]]
    path = document(found)["critical_path"]
    assert (path["by_kind_s"], path["length_s"], path["pieces"]) == ({"reduce": 2}, 2, 1)
    with pytest.raises(InputError, match="no time of the trace"):
        analyze(reduction(6), (8 * S, 9 * S))


def test_steps_follow_one_another():
    run = unit_cost(4, 2, 4, "standard", extra="steps: 3")
    windows = [run_window(run.trace.ops, 3, step=step)[0] for step in range(3)]
    assert windows[0][0] == 0 and windows[-1][1] == run.trace.makespan_ps
    assert all(one[1] == other[0] for one, other in itertools.pairwise(windows))
    with pytest.raises(InputError, match="no step 3; allowed: 0 to 2"):
        run_window(run.trace.ops, 3, step=3)


def test_links_without_a_known_capacity_are_left_out():
    links = pd.DataFrame({"link": ["x", "y"], "start_ps": [0, 0], "end_ps": [S, S], "rate_bytes_s": [50.0, 80.0]})
    assert link_use(links, TOTALS, (0, S))["link"].tolist() == ["x"]
    use = link_use(links, TOTALS, (S // 2, 2 * S))
    assert use[["busy_s", "mean_utilization", "peak_utilization"]].values.tolist() == [[0.5, 1 / 6, 0.5]]
    loads = read_loads(links, TOTALS)
    assert kinds_used(loads, union([0], [S])) == ["network"] and kinds_used(loads, union([S], [2 * S])) == []
    assert utilization_during(loads, union([0], [S]), ["network"]) == ("network", 0.5)
    assert utilization_during(loads, union([S], [2 * S]), ["network"]) is None
    assert utilization_during(loads, union([], []), ["network"]) is None


def test_a_kind_is_as_busy_as_its_busiest_link_at_each_time():
    """Out for 4 s at 100 %, then back for 4 s at 60 %, while another link of the kind is at 10 %: 80 %."""
    rows = [("out", 0, 4, 100.0), ("back", 4, 8, 60.0), ("idle", 0, 8, 10.0)]
    links = pd.DataFrame(rows, columns=["link", "start_ps", "end_ps", "rate_bytes_s"])
    totals = pd.DataFrame({"link": ["out", "back", "idle"], "kind": "pcie", "links": 1, "capacity_bytes_s": 100})
    assert utilization_during(read_loads(links, totals), union([0], [8]), ["pcie"]) == ("pcie", pytest.approx(0.8))
    assert utilization_during(read_loads(links, totals), union([3, 6], [5, 8]), ["pcie"]) == ("pcie", pytest.approx(0.7))


def test_links_that_carry_another_kind_of_communication_are_not_named():
    """Tensor traffic on NVLink at 20 %, a reduction beside the second half of it on the network at 97 %, then that alone for 1 s."""
    step = trace(
        (0, "compute", "forward", 0, S, 0, ""), (0, "tensor", "tensor", S, 9 * S, 0, "t"), (0, "data", "reduce", 5 * S, 10 * S, 0, "d")
    )
    rows = [("n", S, 9 * S, 20.0), ("x", 5 * S, 10 * S, 97.0)]
    links = pd.DataFrame(rows, columns=["link", "start_ps", "end_ps", "rate_bytes_s"])
    totals = pd.DataFrame({"link": ["n", "x"], "kind": ["nvlink", "network"], "links": 1, "capacity_bytes_s": 100})
    found = analyze(type(step)(step.ops, step.dependencies, links, step.memory), None, totals)
    assert limits(found) == "80 % of the step is exposed tensor-parallel communication on nvlink links at 20 % utilization; 10 % is compute"
    assert found.limiting_links == {"tensor": ("nvlink", pytest.approx(0.2))}
