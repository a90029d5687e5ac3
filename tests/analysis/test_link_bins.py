"""Rows of the heat map of links: who shares one, and what it shows."""

import numpy as np
import pandas as pd
import pytest

from clustersim.analysis.link_bins import busiest, link_bins, link_rows


def totals(**links):
    rows = [(f"{kind}{place}", kind, 1) for kind, count in links.items() for place in range(count)]
    return pd.DataFrame(rows, columns=["link", "kind", "links"])


@pytest.mark.parametrize(
    ("counts", "most", "expected"),
    [
        ({"nvlink": 3, "network": 2}, 60, {"nvlink": 3, "network": 2}),
        ({"nvlink": 8, "network": 10_000}, 60, {"nvlink": 8, "network": 52}),
        ({"nvlink": 5_000, "network": 10_000, "pcie": 4}, 60, {"nvlink": 28, "network": 28, "pcie": 4}),
        ({"a": 9, "b": 9, "c": 9}, 2, {"a": 1, "b": 1, "c": 1}),
    ],
)
def test_kinds_share_the_room_and_no_link_is_lost(counts, most, expected):
    rows = link_rows(totals(**counts), most)
    kinds = [row.kind for row in rows]
    assert {kind: kinds.count(kind) for kind in counts} == {kind: pytest.approx(count, abs=2) for kind, count in expected.items()}
    assert len(rows) <= max(most, len(counts)) and kinds == sorted(kinds)
    assert sorted(name for row in rows for name in row.links) == sorted(totals(**counts)["link"])


def test_a_short_peak_of_one_of_many_links_is_seen():
    """100 links idle but for one that is full for a tenth of the time: its row is full there, all others empty."""
    names = [f"network{place}" for place in range(100)]
    links = pd.DataFrame({"link": ["network41"], "start_ps": [30], "end_ps": [40], "rate_bytes_s": [8.0]})
    links = pd.concat([links, pd.DataFrame({"link": names, "start_ps": 0, "end_ps": 1, "rate_bytes_s": 0.0})])
    rows = link_rows(totals(network=100), 10)
    found = busiest(link_bins(links, pd.Series(dict.fromkeys(names, 8)), names, (0, 100), 10), names, rows)
    expected = np.zeros((10, 10))
    expected[4, 3] = 1
    assert found.tolist() == expected.tolist()
