"""The compute of a rank over that of its peers, where it is the same work."""

import numpy as np
import pandas as pd
import pytest

from clustersim.analysis.pace import compute_over_peers, median_of_others
from clustersim.analysis.streams import read_ops
from clustersim.trace.trace import Trace


def pace(*rows, **columns):
    """Ops are (rank, kind, duration_ps), one after another."""
    table = pd.DataFrame(list(rows), columns=["rank", "kind", "end_ps"]).assign(start_ps=0, stream="s", **columns)
    return compute_over_peers(read_ops(Trace(table, table[:0], table[:0], table[:0])), table).tolist()


@pytest.mark.parametrize("count", range(1, 7))
def test_median_of_others(count):
    values = np.random.default_rng(count).integers(0, 9, 2 * count).astype(float)
    group = np.arange(2 * count) % 2
    others = [np.delete(values[group == group[at]], at // 2) for at in range(2 * count)]
    expected = [np.median(rest) if len(rest) else np.nan for rest in others]
    np.testing.assert_array_equal(median_of_others(group, values), expected)


def test_of_two_ranks_each_is_the_peer_of_the_other():
    assert pace((0, "forward", 10), (1, "forward", 13)) == [10 / 13, 1.3]


def test_means_are_compared_and_not_sums():
    """Rank 1 has three times the layers."""
    assert pace((0, "forward", 10), *[(1, "forward", 10)] * 3) == [1, 1]


def test_other_flops_are_other_work():
    """Half of what rank 1 computes nobody else does; of rank 2 more than half."""
    rows = [(0, "forward", 10), (1, "forward", 20), (1, "forward", 20), (2, "forward", 10), (2, "forward", 11)]
    found = pace(*rows, flops=[1.0, 1.0, 5.0, 1.0, 7.0])
    assert found[:2] == [10 / 15, 2] and np.isnan(found[2])


def test_alone_or_without_compute_nothing_is_known():
    assert np.isnan(pace((0, "forward", 10), (1, "optimizer", 10), (2, "reduce", 10), (1, "optimizer", 99))).all()
    assert np.isnan(pace((0, "forward", 0), (1, "forward", 0))).all()


def test_kernels_are_compared_by_name_where_ranks_ran_them_equally_often():
    """a: 12 over 10; b, which rank 1 ran twice, is no peer; c is 3 times as long on rank 1 and outvoted by the longer a."""
    rows = [(0, "kernel", 10), (0, "kernel", 1), (0, "kernel", 3), (1, "kernel", 12), (1, "kernel", 3), (1, "kernel", 4), (1, "kernel", 4)]
    found = pace(*rows, name=["a", "c", "b", "a", "c", "b", "b"])
    assert found == [10 / 12, 1.2]
