"""Rates of bundles and times of flows, as pieces of equal pace."""

import pytest

from clustersim.engine.record import Record

S = 10**12


def test_each_flow_is_cut_where_the_rate_of_its_own_bundle_changes():
    record = Record()
    for bundle, time_ps, rate in ((0, 0, 4), (2, 0, 7), (1, 2, 3), (0, 5, 2), (1, 8, 6)):
        record.rate(bundle, time_ps, rate)
    # Work of 3 x 6 + 6 x 2 = 30, 4 x 3 = 12 = 2 x 6, and 7 x 3 = 21.
    for flow in ((0, 1, 2, 10), (1, 0, 1, 4), (1, 0, 5, 11), (2, 2, 3, 6)):
        record.flow(*flow)
    found = record.segments([30, 12, 21])
    assert found.phase.tolist() == [0, 0, 1, 1, 2]
    assert found.start_ps.tolist() == [2, 8, 1, 5, 3]
    assert found.end_ps.tolist() == [8, 10, 4, 11, 6]
    assert found.pace_per_s.tolist() == pytest.approx([3 / 30 * S, 6 / 30 * S, 4 / 12 * S, 2 / 12 * S, 7 / 21 * S])
