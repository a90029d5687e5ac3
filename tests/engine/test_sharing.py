"""Links that are shared max-min fairly: the textbook cases, then anything."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy import Environment

from clustersim.engine.events import Signal, call_after
from clustersim.engine.links import Network
from clustersim.engine.sharing import Crossing, shares
from clustersim.program.program import Links, Load, Phase

GB = 10**9
S = 10**12


def ends(capacities, flows, look=None):
    """End times in ps of flows (start_ps, bytes, links) on links of the given bytes/s, and the network.

    ``look(network)`` is called at the end of each instant.
    """
    env = Environment(initial_time=0)
    links = Links(tuple(map(str, range(len(capacities)))), ("network",) * len(capacities), tuple(capacities), (1,) * len(capacities))
    phases = [Phase(0, tuple(Load(link, Fraction(size)) for link in path)) for _, size, path in flows]
    network = Network(env, links, phases)
    result = [None] * len(flows)

    def start(number):
        done = Signal(env)
        done.callbacks.append(lambda _: result.__setitem__(number, env.now))
        network.join(number, done)

    for number, (at, _, _) in enumerate(flows):
        call_after(env, at, start, number)
    while env.peek() != float("inf"):
        now = env.peek()
        while env.peek() == now:
            env.step()
        if look:
            look(network)
    return result, network


def test_two_equal_flows_share_a_link():
    result, _ = ends([10 * GB], [(0, 10 * GB, [0]), (0, 10 * GB, [0])])
    assert result == [2 * S, 2 * S]


def test_when_one_ends_the_other_has_the_link():
    # 5 GB at 5 GB/s, then the remaining 10 GB at 10 GB/s.
    result, _ = ends([10 * GB], [(0, 5 * GB, [0]), (0, 15 * GB, [0])])
    assert result == [1 * S, 2 * S]


def test_a_flow_that_comes_later():
    # 10 GB alone in 1 s, then both at 5 GB/s.
    result, _ = ends([10 * GB], [(0, 20 * GB, [0]), (1 * S, 10 * GB, [0])])
    assert result == [3 * S, 3 * S]


def test_parking_lot():
    result, _ = ends([10 * GB, 10 * GB], [(0, 10 * GB, [0, 1]), (0, 10 * GB, [0]), (0, 10 * GB, [1])])
    assert result == [2 * S] * 3
    a, b = Crossing(0, 1, 1, 1), Crossing(1, 1, 1, 1)
    assert [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])] == [2, 8, 2]


def test_what_a_flow_cannot_use_goes_to_the_others():
    # Link 0 of 10, link 1 of 4: flow 0 has 2, flow 1 has 8, flow 2 has 2 GB/s.
    result, _ = ends([10 * GB, 4 * GB], [(0, 2 * GB, [0, 1]), (0, 8 * GB, [0]), (0, 2 * GB, [1])])
    assert result == [1 * S] * 3


def test_flows_that_do_not_meet_do_not_matter_to_each_other():
    result, _ = ends([10 * GB, 7 * GB], [(0, 10 * GB, [0]), (0, 7 * GB, [1])])
    assert result == [1 * S, 1 * S]


def test_many_connections_in_one_flow_equal_so_many_flows():
    many = shares([(Crossing(0, 1, 1, 3),), (Crossing(0, 1, 1, 1),)], [1000])
    single = shares([(Crossing(0, 1, 1, 1),)] * 4, [1000])
    assert [rate for rate, _ in many] == [250, 250] == [rate for rate, _ in single][:2]


def test_a_flow_that_needs_twice_the_bytes_on_one_link_goes_at_half_its_share():
    # Equal shares of bytes/s: 5 and 5; the first flow's other link carries half of what this one does.
    rates = [rate for rate, _ in shares([(Crossing(0, 1, 1, 1), Crossing(1, 1, 2, 1)), (Crossing(0, 1, 1, 1),)], [10, 100])]
    assert rates == [5, 5]


def test_flows_of_unequal_weight_leave_nothing_that_another_could_use():
    # On link 0 the first flow moves a quarter of its bytes. The third flow has 11 (link 2), so that the first has 13 of link 1 and takes
    # 3.25 of link 0: the second has the other 16.75, though half of link 0 would be less than what the first could take.
    scale = 10**6
    first = (Crossing(0, 1, 4, 1), Crossing(1, 1, 1, 1))
    flows = [first, (Crossing(0, 1, 1, 1),), (Crossing(1, 1, 1, 1), Crossing(2, 1, 1, 1))]
    rates = [rate for rate, _ in shares(flows, [20 * scale, 24 * scale, 11 * scale])]
    assert rates == [13 * scale, 16_750_000, 11 * scale]


def test_unequal_weights_in_a_circle_come_to_an_end():
    # Each flow is limited where another takes half: no link can be settled before the others.
    flows = [(Crossing(a, 1, 1, 1), Crossing((a + 1) % 3, 1, 2, 1)) for a in range(3)]
    rates = [rate for rate, _ in shares(flows, [100, 100, 100])]
    assert len(set(rates)) == 1
    assert 50 <= rates[0] <= 66


paths = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
flow = st.tuples(st.integers(0, 50).map(lambda n: n * S // 10), st.integers(1, 40).map(lambda n: n * GB // 4), paths)


@given(st.lists(st.sampled_from([1, 2, 5, 7, 10]), min_size=5, max_size=5), st.lists(flow, min_size=1, max_size=9))
def test_bytes_are_conserved_and_no_link_is_overfull(capacities, flows):
    capacities = [capacity * GB for capacity in capacities]
    result, network = ends(capacities, flows)
    moved = [0.0] * len(flows)
    for segment in network.segments:
        moved[segment.phase] += segment.rate_bytes_s * (segment.end_ps - segment.start_ps) / S
    for (start, size, path), end, carried in zip(flows, result, moved, strict=True):
        assert carried == pytest.approx(size, abs=1 + 1e-9 * size)
        assert end >= start + size * S // min(capacities[link] for link in path) - 1
    for instant in sorted({segment.start_ps for segment in network.segments}):
        for link, capacity in enumerate(capacities):
            here = [s.rate_bytes_s for s in network.segments if s.start_ps <= instant < s.end_ps and link in flows[s.phase][2]]
            assert sum(here) <= capacity * (1 + 1e-12)


@given(st.lists(st.sampled_from([3, 10, 17]), min_size=5, max_size=5), st.lists(paths, min_size=1, max_size=9))
def test_every_flow_is_held_by_a_full_link_on_which_none_has_more(capacities, routes):
    # The definition of max-min fairness (Bertsekas and Gallager, Data Networks, section 6.5.2).
    scale = 10**12
    flows = [tuple(Crossing(link, 1, 1, 1) for link in path) for path in routes]
    rates = [rate for rate, _ in shares(flows, [capacity * scale for capacity in capacities])]
    for path, rate in zip(routes, rates, strict=True):
        held = False
        for link in path:
            here = [other for route, other in zip(routes, rates, strict=True) if link in route]
            held = held or (sum(here) >= capacities[link] * scale - len(here) and rate >= max(here) - len(here))
        assert held


@given(st.lists(st.sampled_from([1, 2, 5, 7, 10]), min_size=5, max_size=5), st.lists(flow, min_size=1, max_size=12))
def test_settling_what_is_reached_equals_sharing_anew_among_all(capacities, flows):
    capacities = [capacity * GB for capacity in capacities]

    def look(network):
        active = sorted({f for link in network._links.values() for f in link.flows}, key=lambda f: f.number)
        fair = shares([f.crossings for f in active], [capacity * 10**6 for capacity in capacities])
        for one, (rate, _) in zip(active, fair, strict=True):
            assert one.rate == pytest.approx(rate, rel=1e-12)

    ends(capacities, flows, look)


@given(st.lists(st.sampled_from([1, 2, 5, 7, 10]), min_size=5, max_size=5), st.lists(flow, min_size=1, max_size=12))
def test_what_a_link_keeps_count_of_is_the_sum_over_its_flows(capacities, flows):
    def look(network):
        for number, link in network._links.items():
            assert link.used == sum(f.rate for f in link.flows)
            assert link.connections == len(link.flows)
            assert set(link.limited) == {f for f in link.flows if f.slowest == number}
            assert link.used <= link.capacity

    ends([capacity * GB for capacity in capacities], flows, look)
