"""Collectives against their closed forms, and against their expansion into single messages."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.collectives.algorithms import flat, plan, sent_share, two_trees
from clustersim.collectives.layout import lay_out
from clustersim.collectives.loads import alone_ps, lay_phases
from tests.collectives.star import GB, ONE, Star

S = 10**12


@pytest.mark.parametrize("n", [2, 3, 8, 16])
@pytest.mark.parametrize("a", [0, 700_000])
@pytest.mark.parametrize("size", [1, 1000, 10**9, 2**40])
def test_closed_forms(n, a, size):
    b = 50 * GB
    star = Star(n, b, a)

    def time(op, algorithm):
        return alone_ps(star, range(n), op, algorithm, size)

    ring = pytest.approx((n - 1) * (a + size * S / (n * b)), abs=1)
    assert time("reduce_scatter", "ring") == ring
    assert time("all_gather", "ring") == ring
    assert time("all_reduce", "ring") == pytest.approx(2 * (n - 1) * (a + size * S / (n * b)), abs=1)
    assert time("all_to_all", "direct") == ring
    assert alone_ps(star, (0, 1), "send", "ring", size) == pytest.approx(a + size * S / b, abs=1)
    assert time("broadcast", "ring") == pytest.approx((n - 1) * a + size * S / b, abs=1)
    assert time("all_reduce", "direct") == pytest.approx(2 * (a + (n - 1) * size * S / (n * b)), abs=2)


def test_the_worked_example():
    star = Star(8, 50 * GB)
    reduce = alone_ps(star, range(8), "all_reduce", "ring", GB)
    assert reduce == 35 * 10**9
    assert GB / (reduce / S) / 1e9 == pytest.approx(28.57, abs=0.005)
    assert GB / (reduce / S) * 2 * 7 / 8 / 1e9 == 50
    assert alone_ps(star, range(8), "all_gather", "ring", GB) == 17_500_000_000


@pytest.mark.parametrize("n", [4, 8, 16])
@pytest.mark.parametrize(
    ("op", "times"),
    [
        ("all_reduce", {4: 32299, 8: 41189, 16: 51631}),
        ("all_gather", {4: 60097, 8: 140225, 16: 300481}),
        ("reduce_scatter", {4: 16150, 8: 20595, 16: 25816}),
    ],
)
def test_the_figures_of_an_analytical_peer(op, n, times):
    # ASTRA-sim's analytical network: 1 MiB, 53.6870912 GB/s, 500 ns a hop; its all-gather counts the shard of one rank.
    size = 2**20 * (n if op == "all_gather" else 1)
    assert alone_ps(Star(n, 53687091200, 500_000), range(n), op, "ring", size) / 1000 == pytest.approx(times[n], rel=1e-3)


@given(st.sampled_from(["ring", "halving-doubling", "direct"]), st.sampled_from([2, 4, 8]), st.integers(0, 10**6), st.integers(1, 10**12))
def test_all_reduce_is_reduce_scatter_and_all_gather(algorithm, n, a, size):
    star = Star(n, 7 * GB, a)
    parts = alone_ps(star, range(n), "reduce_scatter", algorithm, size) + alone_ps(star, range(n), "all_gather", algorithm, size)
    assert alone_ps(star, range(n), "all_reduce", algorithm, size) == pytest.approx(parts, abs=6)


def test_hierarchical_bytes_do_not_depend_on_the_order_of_the_dimensions():
    size = 10**9
    for per_node in (2, 8):
        star = Star(16, 25 * GB, 0, per_node)
        phases = lay_phases(star, range(16), "all_reduce", "hierarchical")
        for member in range(16):
            assert sum(sum(phase.by_member[member].values()) for phase in phases) / 2 == 2 * Fraction(15, 16)
        assert alone_ps(star, range(16), "all_reduce", "hierarchical", size) == pytest.approx(2 * 15 / 16 * size / 25e9 * S, abs=3)


def test_halving_doubling():
    star = Star(8, 10 * GB, 1000)
    size = 8 * 10**9
    assert alone_ps(star, range(8), "all_reduce", "halving-doubling", size) == 2 * 3 * 1000 + 2 * 7 * 10**11
    with pytest.raises(ValueError, match="allowed: ring, multi-ring, tree, direct"):
        plan("all_reduce", "halving-doubling", flat(6))
    with pytest.raises(ValueError, match="allowed: direct"):
        plan("all_to_all", "ring", flat(4))


def test_a_tree_takes_twice_the_payload():
    # 1 GB at 50 GB/s takes 20 ms; 2 d a with d = 3 levels of 8.
    assert alone_ps(Star(8, 50 * GB), range(8), "all_reduce", "tree", GB) == 40 * 10**9
    assert alone_ps(Star(8, 50 * GB, 1000), range(8), "all_reduce", "tree", GB) == 40 * 10**9 + 6 * 1000
    in_halves = {2: 2, 3: 3, 4: 3}  # of the payload; from 5 on some member has a parent and two children, and is a leaf in the other
    for n in range(2, 70):
        expected = Fraction(in_halves.get(n, 4), 2) * GB * S / (50 * GB)
        assert alone_ps(Star(n, 50 * GB), range(n), "all_reduce", "tree", GB) == expected


@pytest.mark.parametrize("n", [*range(1, 70), 1000, 1001])
def test_two_binary_trees_of_which_none_is_inner_in_both(n):
    trees, depth = two_trees(n)
    assert depth == n.bit_length() - 1
    inner = []
    for parents in trees:
        assert parents.count(-1) == 1
        children = Counter(parent for parent in parents if parent >= 0)
        assert max(children.values(), default=0) <= 2
        inner.append(set(children))
        depths = []
        for member in range(n):
            at, steps = member, 0
            while parents[at] >= 0:
                at, steps = parents[at], steps + 1
            depths.append(steps)
        assert max(depths) == depth
    assert not inner[0] & inner[1]


@pytest.mark.parametrize("n", range(2, 70))
def test_members_of_a_tree_send_and_receive_the_payload_twice_at_most(n):
    (phase,) = plan("all_reduce", "tree", flat(n))
    sent = [sum(send.share for send in sends) for sends in phase.sends]
    received = [sum(send.share for sends in phase.sends for send in sends if send.to == member) for member in range(n)]
    assert sent == received and max(sent) <= 2
    assert sum(sent) == 2 * (n - 1)  # each edge of two trees, up and down, half the payload


def test_a_switch_that_reduces_takes_the_payload_once_each_way():
    star = Star(8, 100 * GB, 1000)
    star.in_switch = Fraction(1, 2)
    (phase,) = lay_phases(star, range(8), "all_reduce", "in-switch")
    assert set(phase.total.values()) == {ONE} and len(phase.total) == 16  # up and down of every member, the payload and no more
    assert sent_share("all_reduce", "in-switch", lay_out(star, range(8))) == 1
    # Half the capacity is all that it reaches: 10 GB at 50 GB/s.
    assert alone_ps(star, range(8), "all_reduce", "in-switch", 10 * GB) == 1000 + S // 5


def test_a_switch_that_reduces_on_two_nodes():
    star = Star(8, 100 * GB, 1000, per_node=4)
    star.in_switch = Fraction(1, 2)
    # Twice the payload at half the rate inside (10 GB at 50 GB/s), and a ring of two nodes with a quarter of it at the whole rate.
    assert alone_ps(star, range(8), "all_reduce", "in-switch", 10 * GB) == 2 * (1000 + S // 5) + 2 * 1000 + S // 40
    # Only the root's place sends a broadcast to the other node, all of it.
    between, inside = lay_phases(star, range(8), "broadcast", "in-switch")
    assert between.total == {0: ONE, 12: ONE} and inside.pace.steps == 1


def test_a_broadcast_comes_from_one_member_over_all_rings():
    rings = (((0, 1, 2, 3), Fraction(1, 2)), ((2, 3, 1, 0), Fraction(1, 2)))
    (phase,) = plan("broadcast", "multi-ring", flat(4)._replace(rings=rings))
    into_root = [send for sends in phase.sends for send in sends if send.to == 0]
    assert not into_root and sum(send.share for send in phase.sends[0]) == 1
