"""Links that are shared max-min fairly: the textbook cases, then anything."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.engine import links as engine_links
from clustersim.engine.circle import _agree, _eliminate, _Kinds, _rates
from clustersim.engine.events import Clock, Signal
from clustersim.engine.links import Network
from clustersim.engine.sharing import BITS, UNIT, Crossing, demand, shares
from clustersim.program.program import Links, Load, Phase

GB = 10**9
S = 10**12

# How much of a flow's bytes a link carries, over how many connections.
ALL, HALF, QUARTER = (1, 1), (Fraction(1, 2), 1), (Fraction(1, 4), 1)


def ends(capacities, flows, look=None):
    """End times in ps of flows (start_ps, bytes, links) on links of the given bytes/s, and the network.

    ``links``: their numbers, or by number how much of the bytes crosses it, over how many connections, and what part of each.
    ``look(network)`` is called at the end of each instant.
    """
    clock = Clock()
    links = Links(tuple(map(str, range(len(capacities)))), ("network",) * len(capacities), tuple(capacities), (1,) * len(capacities))
    phases = []
    for _, size, path in flows:
        uses = path if isinstance(path, dict) else dict.fromkeys(path, ALL)
        loads = (Load(link, size * Fraction(amount), *more) for link, (amount, *more) in uses.items())
        phases.append(Phase(0, tuple(load._replace(part=Fraction(load.part)) for load in loads)))
    network = Network(clock, links, phases)
    result = [None] * len(flows)

    def start(number):
        done = Signal()
        done.callbacks.append(lambda _: result.__setitem__(number, clock.now))
        network.send(number, done)

    for number, (at, _, _) in enumerate(flows):
        clock.call_after(at, start, number)
    while clock.peek() != float("inf"):
        now = clock.peek()
        while clock.peek() == now:
            clock.step()
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


def test_a_flow_ends_at_the_nearest_picosecond():
    # 10 bytes/ps each until the first is across, at 1,000 ps. The second then has 14 bytes left at 20 bytes/ps: 0.7 ps.
    result, _ = ends([20 * S], [(0, 10_000, [0]), (0, 10_014, [0])])
    assert result == [1000, 1001]


def test_when_one_ends_as_another_begins_the_first_to_end_is_found_anew():
    # 5 GB/s each. When the first ends at 1 s the third follows, at the same rate, and ends at 2 s, before the second,
    # which has 10 of its 20 GB left then and the link to itself.
    clock, found = Clock(), {}
    links = Links(("0",), ("network",), (10 * GB,), (1,))
    network = Network(clock, links, [Phase(0, (Load(0, Fraction(size * GB)),)) for size in (5, 20, 5)])

    def send(number):
        done = Signal()
        done.callbacks.append(lambda _: found.update({number: clock.now}))
        if number == 0:
            done.callbacks.append(lambda _: send(2))
        network.send(number, done)

    send(0)
    send(1)
    clock.run()
    assert found == {0: 1 * S, 2: 2 * S, 1: 3 * S}


def test_shares_that_are_no_longer_known_are_found_again(monkeypatch):
    monkeypatch.setattr(engine_links, "_MOST_KNOWN", 0)
    result, network = ends([10 * GB], [(0, 5 * GB, [0]), (0, 15 * GB, [0])])
    assert result == [1 * S, 2 * S] and len(network._known) == 1


def test_a_link_that_carries_nothing_of_a_flow_is_none_of_its_links():
    assert [crossing.link for crossing in demand([Load(0, Fraction(10)), Load(1, Fraction(0)), Load(2, Fraction(5))]).crossings] == [0, 2]


def test_a_flow_that_comes_later():
    # 10 GB alone in 1 s, then both at 5 GB/s.
    result, _ = ends([10 * GB], [(0, 20 * GB, [0]), (1 * S, 10 * GB, [0])])
    assert result == [3 * S, 3 * S]


def test_parking_lot():
    result, _ = ends([10 * GB, 10 * GB], [(0, 10 * GB, [0, 1]), (0, 10 * GB, [0]), (0, 10 * GB, [1])])
    assert result == [2 * S] * 3
    a, b = Crossing(0), Crossing(1)
    assert [rate for rate, _ in shares([(a, b), (a,), (b,)], [10, 4])] == [2, 8, 2]


def test_what_a_flow_cannot_use_goes_to_the_others():
    # Link 0 of 10, link 1 of 4: flow 0 has 2, flow 1 has 8, flow 2 has 2 GB/s.
    result, _ = ends([10 * GB, 4 * GB], [(0, 2 * GB, [0, 1]), (0, 8 * GB, [0]), (0, 2 * GB, [1])])
    assert result == [1 * S] * 3


def test_flows_that_do_not_meet_do_not_matter_to_each_other():
    result, _ = ends([10 * GB, 7 * GB], [(0, 10 * GB, [0]), (0, 7 * GB, [1])])
    assert result == [1 * S, 1 * S]


def test_many_connections_in_one_flow_equal_so_many_flows():
    many = shares([(Crossing(0, connections=3),), (Crossing(0),)], [1000])
    single = shares([(Crossing(0),)] * 4, [1000])
    assert [rate for rate, _ in many] == [250, 250] == [rate for rate, _ in single][:2]


def test_connections_have_equal_shares_of_a_link_whatever_they_need_elsewhere():
    # The first moves eight times as many bytes over link 1, which is twenty times as fast: 5 GB/s of link 0 each.
    result, _ = ends([10 * GB, 200 * GB], [(0, 80 * GB, {0: (Fraction(1, 8), 1), 1: ALL}), (0, 10 * GB, [0])])
    assert result == [2 * S, 2 * S]


def test_a_flow_is_held_up_where_its_share_is_least_for_what_it_needs():
    # Alone the first has 10 GB/s of link 0 and needs 80 of link 1. There both have 50: in 0.4 s the second is across and the first has
    # moved 20 of its 80 GB, the rest goes at 80 GB/s.
    result, _ = ends([10 * GB, 100 * GB], [(0, 80 * GB, {0: (Fraction(1, 8), 1), 1: ALL}), (0, 20 * GB, [1])])
    assert result == [115 * S // 100, 4 * S // 10]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_little_more_bandwidth_changes_little(more):
    # Alone the first would be as long on either link. On link 1 each of three has a third.
    flows = [(0, 7 * GB, {0: ALL, 1: (Fraction(1, 7), 1)}), (0, GB, [1]), (0, GB, [1])]
    result, _ = ends([7 * GB + more, GB], flows)
    assert result == pytest.approx([3 * S] * 3, rel=1e-9)


def test_a_flow_spread_over_links_has_so_much_less_of_each():
    # Three quarters of a connection on link 0, one on link 1: 10 = 3/4 x + x on link 0 alone with a whole one.
    spread = {0: (Fraction(3, 4), 1, 1, Fraction(3, 4)), 1: (Fraction(1, 4), 1, 1, Fraction(1, 4))}
    result, _ = ends([7 * GB, 7 * GB], [(0, 4 * GB, spread), (0, 4 * GB, [0])])
    assert result == [1 * S, 1 * S]


def test_flows_of_unequal_weight_leave_nothing_that_another_could_use():
    # On link 0 the first flow moves a quarter of its bytes. The third flow has 11 (link 2), so that the first has 13 of link 1 and takes
    # 3.25 of link 0: the second has the other 16.75, though half of link 0 would be less than what the first could take.
    flows = [(0, 13 * GB, {0: QUARTER, 1: ALL}), (0, 67 * GB // 4, [0]), (0, 11 * GB, [1, 2])]
    result, _ = ends([20 * GB, 24 * GB, 11 * GB], flows)
    assert result == [1 * S, 1 * S, 1 * S]


def test_unequal_weights_in_a_circle():
    # Each flow is held up where another takes half: 100 = x + x/2.
    flows = [(0, 200 * GB, {a: ALL, (a + 1) % 3: HALF}) for a in range(3)]
    result, _ = ends([100 * GB] * 3, flows)
    assert result == [3 * S] * 3


def test_linear_equations_have_one_solution_or_none():
    def rows(*lines):
        return [[Fraction(value) for value in line] for line in lines]

    assert _eliminate(rows((0, 2, 6), (4, 1, 11))) == [2, 3]  # y = 3, 4x + y = 11
    assert _eliminate(rows((1, 2, 3), (2, 4, 6))) is None
    assert _eliminate(rows((0, 0, 1), (0, 1, 1))) is None


def test_a_guess_of_limits_is_right_only_within_all_of_them():
    # Two kinds of flow on one kind of link with room for 12; the second takes two of its connections, and alone has 3.
    kinds = _Kinds([0, 1], [[(0, Fraction(1))], [(0, Fraction(1))]], [{0: Fraction(1), 1: Fraction(2)}], [Fraction(3)], [12], [20, 3])
    assert _rates(kinds, [0, None]) == [6, 3] and _agree(kinds, [Fraction(6), Fraction(3)], [0, None])
    assert _rates(kinds, [0, 0]) == [4, 4] and not _agree(kinds, [Fraction(4)] * 2, [0, 0])  # more than the second can
    assert not _agree(kinds, [Fraction(7), Fraction(3)], [0, None])  # 13 on the link
    assert not _agree(kinds, [Fraction(2), Fraction(3)], [0, None])  # the first is held at less than the second has
    kinds = _Kinds([0, 1], [[(0, Fraction(1))], [(0, Fraction(1))]], [{0: Fraction(1), 1: Fraction(2)}], [Fraction(3)], [6], [20, 3])
    assert _rates(kinds, [0, None]) is None  # the second leaves the first nothing
    both, one = [(0, Fraction(1)), (1, Fraction(1))], {0: Fraction(1), 1: Fraction(1)}
    kinds = _Kinds([0, 1], [both, both], [one, one], [Fraction(2)] * 2, [6, 6], [20, 20])
    assert _rates(kinds, [0, 1]) is None  # both links say the same of the two: 6 together, of which each may have any part


def test_unequal_weights_in_a_circle_whoever_came_first():
    # Alone the first has 4 GB/s, in 0.2 s 0.8 GB. Then 4 = x + x/2, 8/3 GB/s each: the first ends its last 0.2 GB in 0.075 s.
    # The second has then moved 0.2 GB too, and ends its other 0.8 GB at 4 GB/s.
    result, _ = ends([4 * GB, 4 * GB], [(0, GB, {0: ALL, 1: HALF}), (S // 5, GB, {0: HALF, 1: ALL})])
    assert result == [275 * S // 1000, 475 * S // 1000]


capacities_gb_s = st.lists(st.sampled_from([1, 2, 5, 7, 10]), min_size=5, max_size=5)
part = st.sampled_from([1, Fraction(1, 2), Fraction(1, 3), Fraction(2, 7)])
use = st.tuples(part, st.integers(1, 3), st.just(1), st.sampled_from([1, Fraction(1, 2), Fraction(1, 3)]))
paths = st.dictionaries(st.integers(0, 4), use, min_size=1, max_size=3)
flow = st.tuples(st.integers(0, 50).map(lambda n: n * S // 10), st.integers(1, 40).map(lambda n: n * GB // 4), paths)


@given(capacities_gb_s, st.lists(flow, min_size=1, max_size=9))
def test_bytes_are_conserved_and_no_link_is_overfull(capacities, flows):
    capacities = [capacity * GB for capacity in capacities]
    result, network = ends(capacities, flows)
    segments = list(zip(*network.segments(), strict=True))
    moved = [0.0] * len(flows)
    for phase, start, end, pace in segments:
        moved[phase] += pace * (end - start) / S
    for (start, size, path), end, carried in zip(flows, result, moved, strict=True):
        assert carried == pytest.approx(1, rel=2e-9)
        assert end >= start + max(size * amount * S // capacities[link] for link, (amount, *_) in path.items()) - 1
    for instant in sorted({start for _, start, _, _ in segments}):
        used = [0.0] * len(capacities)
        for phase, start, end, pace in segments:
            if start <= instant < end:
                _, size, path = flows[phase]
                for link, (amount, count, *_) in path.items():
                    used[link] += pace * size * amount * count
        assert all(one <= capacity * (1 + 1e-12) for one, capacity in zip(used, capacities, strict=True))


weight = st.sampled_from([UNIT, UNIT // 2, UNIT // 3, UNIT // 5 * 3])
use = st.tuples(weight, st.sampled_from([UNIT, UNIT // 2, UNIT // 4]), st.integers(1, 2))
ways = st.lists(st.dictionaries(st.integers(0, 4), use, min_size=1, max_size=3), min_size=1, max_size=9)


def crossings(way):
    return tuple(Crossing(link, *use) for link, use in way.items())


def assert_fair(flows, rates, slowest, capacities):
    """Bottleneck max fairness (Bonald and Roberts), with equal needs max-min fairness: the link that is said to set a flow's rate is
    full, and no connection has a greater share of it."""
    for flow, rate, link in zip(flows, rates, slowest, strict=True):
        crossing = next(c for c in flow if c.link == link)
        here = [(c, other) for way, other in zip(flows, rates, strict=True) for c in way if c.link == link]
        used = sum(c.connections * c.share(other) for c, other in here)
        tolerance = capacities[link] // 10**9
        assert capacities[link] - tolerance <= used <= capacities[link]
        own = (crossing.share(rate) << BITS) // crossing.part
        assert own >= max((c.share(other) << BITS) // c.part for c, other in here) - tolerance


@given(st.lists(st.sampled_from([3, 10, 17]), min_size=5, max_size=5), ways)
def test_every_flow_is_held_by_a_full_link_on_which_no_connection_has_more(capacities, routes):
    capacities = [capacity * 10**12 for capacity in capacities]
    flows = [crossings(way) for way in routes]
    rates, slowest = zip(*shares(flows, capacities), strict=True)
    assert_fair(flows, rates, slowest, capacities)


@given(st.lists(st.sampled_from([3, 10, 17]), min_size=5, max_size=5), ways, st.randoms())
def test_numbers_of_flows_and_links_do_not_matter(capacities, routes, chance):
    flows = [crossings(way) for way in routes]
    rates = [rate for rate, _ in shares(flows, [capacity * 10**12 for capacity in capacities])]
    order, numbers = list(range(len(flows))), list(range(5))
    chance.shuffle(order)
    chance.shuffle(numbers)
    renumbered = [[crossing._replace(link=numbers[crossing.link]) for crossing in flows[one]] for one in order]
    again = shares(renumbered, {numbers[link]: capacity * 10**12 for link, capacity in enumerate(capacities)})
    assert [rate for rate, _ in again] == [rates[one] for one in order]


def bundles(network):
    return list(dict.fromkeys(each for link in network._links.values() for each in link.bundles))


@given(capacities_gb_s, st.lists(flow, min_size=1, max_size=12))
def test_what_is_settled_step_by_step_is_fair(capacities, flows):
    # Where needs are unequal several shares can be fair, and the one that is found depends on what was there before.
    def look(network):
        active = bundles(network)
        in_units = [capacity * GB * 10**6 for capacity in capacities]
        assert_fair([each.together() for each in active], [each.rate for each in active], [each.slowest for each in active], in_units)

    ends([capacity * GB for capacity in capacities], flows, look)


def test_of_two_links_that_are_as_scarce_the_one_that_stays_full_holds_a_flow():
    # When the third flow ends at 4 s, the first has two thirds of link 2 and the second one; it is not held at the half it had of link 0.
    flows = [
        (0, 10 * GB, {2: ALL, 0: (Fraction(1, 2), 2), 1: HALF}), (0, 10 * GB, {1: ALL, 2: HALF}), (0, GB, [0]), (0, 10 * GB, [0]),
    ]  # fmt: skip
    results = []
    for more in (0, 1):
        result, _ = ends([GB, GB, GB + more], flows)
        results.append([end / S for end in result])
    assert results[0] == pytest.approx([16, 14.5, 4, 21], rel=1e-6) == results[1]


equal_flow = st.tuples(
    st.integers(0, 50).map(lambda n: n * S // 10), st.integers(1, 40).map(lambda n: n * GB // 4),
    st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
)  # fmt: skip


@given(capacities_gb_s, st.lists(equal_flow, min_size=1, max_size=12))
def test_settling_what_is_reached_equals_sharing_anew_among_all(capacities, flows):
    capacities = [capacity * GB for capacity in capacities]

    def look(network):
        active = bundles(network)
        limits = [each.way.alone for each in active]
        fair = shares([each.together() for each in active], [capacity * 10**6 for capacity in capacities], limits)
        for one, (rate, _) in zip(active, fair, strict=True):
            assert one.rate == pytest.approx(rate, rel=1e-12)

    ends(capacities, flows, look)


@given(capacities_gb_s, st.lists(flow, min_size=1, max_size=12))
def test_what_a_link_keeps_count_of_is_the_sum_over_its_flows(capacities, flows):
    def look(network):
        for number, link in network._links.items():
            here = [(each, next(c for c in each.together() if c.link == number)) for each in link.bundles]
            assert link.used == sum(crossing.connections * crossing.share(each.rate) for each, crossing in here)
            assert link.connections == sum(crossing.connections for _, crossing in here)
            assert set(link.limited) == {each for each in link.bundles if each.slowest == number and each.held_up}
            assert link.used <= link.capacity

    ends([capacity * GB for capacity in capacities], flows, look)
