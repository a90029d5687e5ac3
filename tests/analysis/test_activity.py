"""What ranks do over time: shares computed by hand, weights, and the same totals as the analysis of the whole."""

import numpy as np
import pandas as pd
import pytest

from clustersim.analysis.activity import activity
from clustersim.analysis.answer import analyze
from clustersim.analysis.facts import TraceFacts
from clustersim.errors import InputError
from clustersim.trace.trace import Trace
from tests.conftest import SMALL
from tests.helpers import simulated

# rank, stream, kind, start, end, wait; rank 1 waits from 4 to 6 for what rank 0 sends
OPS = [
    (0, "compute", "forward", 0, 4, 0),
    (0, "data", "reduce", 4, 6, 0),
    (0, "send:1", "send", 6, 7, 0),
    (1, "compute", "forward", 2, 4, 0),
    (1, "recv:0", "recv", 6, 7, 2),
    (1, "compute", "backward", 7, 8, 0),
]


def trace_of(rows, on=()):
    ops = pd.DataFrame(rows, columns=["rank", "stream", "kind", "start_ps", "end_ps", "wait_ps"])
    message = ops["kind"].isin(["send", "recv"])
    ops = ops.assign(op=range(len(rows)), bytes=0, group=np.where(message, "p2p", ""), peer=np.where(message, 1 - ops["rank"], -1))
    return Trace(ops, pd.DataFrame(on, columns=["op", "on"], dtype=np.int64), ops[:0], ops[:0])


TRACE = trace_of(OPS, on=[(1, 0), (2, 1), (5, 4), (4, 3)])


def test_the_shares_of_two_ranks():
    edges, shares = activity(TRACE, bins=4, facts=TraceFacts())
    assert edges.tolist() == [0, 2, 4, 6, 8]
    idle = shares.filter(like="idle:").sum(axis=1)
    assert shares["compute"].tolist() == [0.5, 1, 0, 0.25]
    assert shares["exposed:data"].tolist() == [0, 0, 0.5, 0]
    assert shares["exposed:pipeline"].tolist() == [0, 0, 0, 0.5]
    assert idle.tolist() == [0.5, 0, 0.5, 0.25]
    assert shares["idle:warm_up"].tolist() == [0.5, 0, 0, 0]
    assert shares["idle:data"].tolist() == [0, 0, 0.5, 0]


def test_a_rank_counts_for_all_that_it_stands_for():
    _, shares = activity(TRACE, bins=4, facts=TraceFacts(stands_for={0: 3}))
    assert shares["compute"].tolist() == [0.75, 1, 0, 0.125]
    assert shares["exposed:data"].tolist() == [0, 0, 0.75, 0]


def test_a_window_and_more_bins_than_picoseconds():
    edges, shares = activity(TRACE, (4, 7), bins=100, facts=TraceFacts())
    assert edges.tolist() == [4, 5, 6, 7]
    assert shares["exposed:data"].tolist() == [0.5, 0.5, 0]
    assert shares["exposed:pipeline"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("window", [(8, 9), (3, 3), (20, 30)])
def test_a_window_without_time_is_an_error(window):
    with pytest.raises(InputError, match="no time of the trace"):
        activity(TRACE, window, bins=4, facts=TraceFacts())


@pytest.mark.parametrize("window", [None, (10**9, 7 * 10**9)])
def test_the_areas_are_the_parts_of_the_analysis(window):
    trace = simulated(SMALL).trace
    analysis = analyze(trace, window)
    edges, shares = activity(trace, window, bins=77, facts=TraceFacts())
    assert (edges[0], edges[-1]) == analysis.window
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    areas = (shares.mul(np.diff(edges), axis=0)).sum().to_dict()
    expected = {"compute": analysis.mean("compute_ps")}
    expected |= {f"exposed:{name}": time for name, time in analysis.exposed().items() if time}
    expected |= {f"idle:{name}": time for name, time in analysis.idle().items() if time}
    assert areas == pytest.approx(expected, rel=1e-9)
