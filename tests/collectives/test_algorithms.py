"""Collectives against their closed forms, and against their expansion into single messages."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy import Environment

from clustersim.cluster.spec import Route
from clustersim.collectives.algorithms import ALGORITHMS, OPS, algorithms_for, binary_tree, flat, plan, sent_share
from clustersim.collectives.layout import lay_out
from clustersim.collectives.loads import alone_ps, lay_phases
from clustersim.engine.events import Signal, call_after
from clustersim.engine.links import Network
from clustersim.program.program import Links, Load, Phase

GB, S = 10**9, 10**12
ONE = Fraction(1)


class Star:
    """n GPUs on one switch, ``per_node`` of them a node: an up link and a down link each."""

    ideal, link_delay_ps, protocols, in_switch = False, 0, (), None

    def __init__(self, n, bytes_s, latency_ps=0, per_node=None):
        self.n, self.bytes_s, self.latency_ps = n, bytes_s, latency_ps
        self.gpus_per_node = per_node or n

    def route(self, a, b):
        return Route(((a, ONE), (self.n + b, ONE)), self.latency_ps)

    def link_figures(self, link):
        return "network", self.bytes_s, 0

    def links(self):
        names = tuple(map(str, range(2 * self.n)))
        return Links(names, ("network",) * 2 * self.n, (self.bytes_s,) * 2 * self.n, (1,) * 2 * self.n)


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


@given(st.sampled_from(OPS), st.integers(1, 17), st.integers(1, 4))
def test_every_algorithm_moves_what_the_operation_needs(op, n, per_node):
    if op == "send":
        n = 2
    group = range(n)
    star = Star(max(n, 1), GB, 0, per_node)
    layout = lay_out(star, group)
    for algorithm in algorithms_for(op, layout):
        received = [Fraction(0)] * n
        for phase in plan(op, algorithm, layout):
            assert phase.steps >= 1
            for member, sends in enumerate(phase.sends):
                for to, share in sends:
                    assert to != member and 0 <= to < n and share > 0
                    received[to] += share
        # What must arrive at a member at least (Chan et al. 2007): a share of what it does not have.
        least = {"all_reduce": 2 * Fraction(n - 1, n), "broadcast": ONE, "send": ONE}.get(op, Fraction(n - 1, n))
        if op in ("broadcast", "send"):
            assert sum(received) >= (n - 1) * least
        else:
            assert sum(received) >= n * least
        assert n > 1 or not plan(op, algorithm, layout)


def test_hierarchical_bytes_do_not_depend_on_the_order_of_the_dimensions():
    size = 10**9
    for per_node in (2, 8):
        star = Star(16, 25 * GB, 0, per_node)
        phases = lay_phases(star, range(16), "all_reduce", "hierarchical")
        for member in range(16):
            assert sum(sum(phase.by_member[member].values()) for phase in phases) / 2 == 2 * Fraction(15, 16)
        assert alone_ps(star, range(16), "all_reduce", "hierarchical", size) == pytest.approx(2 * 15 / 16 * size / 25e9 * S, abs=3)


def test_halving_doubling_and_tree():
    star = Star(8, 10 * GB, 1000)
    size = 8 * 10**9
    assert alone_ps(star, range(8), "all_reduce", "halving-doubling", size) == 2 * 3 * 1000 + 2 * 7 * 10**11
    # Two trees of depth 3; an inner member of both sends half up and half to two children in each: at most 3/2 + 3/2.
    tree = alone_ps(star, range(8), "all_reduce", "tree", size)
    assert 2 * 3 * 1000 + 2 * 8 * 10**11 <= tree <= 2 * 3 * 1000 + 3 * 8 * 10**11
    with pytest.raises(ValueError, match="allowed: ring, multi-ring, tree, direct"):
        plan("all_reduce", "halving-doubling", flat(6))
    with pytest.raises(ValueError, match="allowed: direct"):
        plan("all_to_all", "ring", flat(4))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 100])
def test_binary_trees_reach_everyone_in_logarithmic_depth(n):
    parents, depth = binary_tree(n)
    assert parents.count(-1) == 1
    assert depth == n.bit_length() - 1
    assert max(parents.count(member) for member in range(n)) <= 2


def rounds(op, algorithm, layout):
    """A collective as rounds of single messages (from, to, share): what its phases abbreviate."""
    n = len(layout.ring)
    found = []
    for phase in plan(op, algorithm, layout):
        every = [(member, to, share) for member, sends in enumerate(phase.sends) for to, share in sends]
        if algorithm in ("ring", "multi-ring", "hierarchical"):
            found += [[(member, to, share / phase.steps) for member, to, share in every]] * phase.steps
        elif op == "all_to_all":
            found += [[(member, (member + k) % n, Fraction(1, n)) for member in range(n)] for k in range(1, n)]
        else:
            found.append(every)
    return found


def expanded_ps(star, op, algorithm, size):
    """Round after round, each message a flow of its own over the shared links."""
    env = Environment(initial_time=0)
    layout = lay_out(star, range(star.n))
    todo = rounds(op, algorithm, layout)
    phases = []
    for messages in todo:
        for member, to, share in messages:
            phases.append(Phase(0, tuple(Load(link, share * size) for link, _ in star.route(member, to).links)))
    network = Network(env, star.links(), phases)
    started = 0

    def run():
        nonlocal started
        for messages in todo:
            waits = []
            for _ in messages:
                done = Signal(env)
                call_after(env, star.latency_ps, lambda what: network.join(*what), (started, done))
                started += 1
                waits.append(done)
            for done in waits:
                if done.callbacks is not None:
                    yield done

    env.process(run())
    env.run()
    return env.now, len(todo)


SHAPES = [(2, 2), (4, 2), (8, 4), (6, 3), (5, 5)]
CASES = [
    (op, algorithm, n, per_node)
    for op in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
    for n, per_node in SHAPES
    for algorithm in algorithms_for(op, lay_out(Star(n, GB, 0, per_node), range(n)))
    if algorithm != "tree"  # its messages are pipelined and have no rounds
]


@pytest.mark.parametrize(("op", "algorithm", "n", "per_node"), CASES)
def test_a_collective_takes_as_long_as_its_messages(op, algorithm, n, per_node):
    star = Star(n, 3 * GB, 12345, per_node)
    for size in (1, 10**6 + 1, 10**9):
        expected, steps = expanded_ps(star, op, algorithm, size)
        assert alone_ps(star, range(n), op, algorithm, size) == pytest.approx(expected, abs=steps)


def test_a_switch_that_reduces_takes_the_payload_once_each_way():
    star = Star(8, 100 * GB, 1000)
    star.in_switch = Fraction(1, 2)
    (phase,) = lay_phases(star, range(8), "all_reduce", "in-switch")
    assert set(phase.total.values()) == {ONE} and len(phase.total) == 16  # up and down of every member, the payload and no more
    assert sent_share("all_reduce", "in-switch", lay_out(star, range(8))) == 1
    # Half the capacity is all that it reaches: 10 GB at 50 GB/s.
    assert alone_ps(star, range(8), "all_reduce", "in-switch", 10 * GB) == 1000 + S // 5
