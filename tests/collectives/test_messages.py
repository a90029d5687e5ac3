"""Plans against collectives written out as single messages: the data arrives, the plans send just that, and take as long."""

from collections import Counter
from fractions import Fraction

import pytest

from clustersim.collectives.algorithms import OPS, algorithms_for, plan, two_trees
from clustersim.collectives.layout import lay_out
from clustersim.collectives.loads import alone_ps
from clustersim.engine.events import Clock, Signal
from clustersim.engine.links import Network
from clustersim.program.program import Load, Phase
from tests.collectives.messages import expand, held_after
from tests.collectives.star import GB, Star

SHAPES = [(2, 2), (3, 3), (4, 2), (4, 4), (5, 5), (6, 3), (6, 2), (7, 7), (8, 4), (8, 8), (9, 3), (12, 4), (16, 4)]


def star(n, per_node, latency_ps=0):
    made = Star(n, 3 * GB, latency_ps, per_node)
    made.in_switch = Fraction(1, 2)
    return made


def cases(ops):
    return [
        (op, algorithm, n, per_node)
        for n, per_node in SHAPES
        for op in ops
        if op != "send" or n == 2
        for algorithm in (["send"] if op == "send" else algorithms_for(op, lay_out(star(n, per_node), range(n))))
    ]


def complete(op, expansion, n):
    """By member, the chunks it must hold in full, and whose data that is."""
    everyone, chunks = frozenset(range(n)), list(expansion.weights)
    if op == "all_reduce":
        return {member: dict.fromkeys(chunks, everyone) for member in range(n)}
    if op == "reduce_scatter":
        return {member: {chunk: everyone for chunk in chunks if expansion.owner[chunk] == member} for member in range(n)}
    if op == "all_to_all":
        return {member: {chunk: frozenset((chunk[0],)) for chunk in chunks if chunk[1] == member} for member in range(n)}
    return {member: {chunk: frozenset((expansion.owner.get(chunk, 0),)) for chunk in chunks} for member in range(n)}


@pytest.mark.parametrize(("op", "algorithm", "n", "per_node"), cases(OPS))
def test_every_member_ends_with_its_data(op, algorithm, n, per_node):
    expansion = expand(op, algorithm, lay_out(star(n, per_node), range(n)))
    holds = held_after(op, expansion, n)
    assert op == "all_to_all" or sum(expansion.weights.values()) == 1
    for member, wanted in complete(op, expansion, n).items():
        assert {chunk: holds[member, chunk] for chunk in wanted} == wanted
        if op == "reduce_scatter":
            assert sum(expansion.weights[chunk] for chunk in wanted) == Fraction(1, n)


@pytest.mark.parametrize(("op", "algorithm", "n", "per_node"), cases(OPS))
def test_plans_send_what_the_messages_carry(op, algorithm, n, per_node):
    layout = lay_out(star(n, per_node), range(n))
    expansion = expand(op, algorithm, layout)
    phases = plan(op, algorithm, layout)
    assert len(phases) == len(expansion.phases)
    for phase, rounds in zip(phases, expansion.phases, strict=True):
        carried = Counter()
        for messages in rounds:
            for message in messages:
                carried[message.source, message.to] += sum(expansion.weights[chunk] for chunk in message.chunks)
        if phase.in_switch:  # up and down at most the payload each, and somewhere just that
            assert all(len(sends) == 1 and sends[0].share == 1 for sends in phase.sends)
            assert max(carried.values()) == 1
        else:
            planned = Counter()
            for member, sends in enumerate(phase.sends):
                for to, share in sends:
                    planned[member, to] += share
            assert planned == carried


def test_shuffled_groups_too():
    group = (5, 2, 7, 0, 3, 6, 1, 4)
    for op in OPS[:5]:
        layout = lay_out(star(8, 4), group)
        for algorithm in algorithms_for(op, layout):
            expansion = expand(op, algorithm, layout)
            holds = held_after(op, expansion, 8)
            for member, wanted in complete(op, expansion, 8).items():
                assert {chunk: holds[member, chunk] for chunk in wanted} == wanted
    assert layout.order == (3, 6, 1, 4, 7, 0, 5, 2)


def in_rounds_ps(cluster, expansion, size):
    """Round after round, each message a flow of its own over the shared links."""
    clock = Clock()
    phases = []
    for messages in expansion.rounds:
        for message in messages:
            carried = sum(expansion.weights[chunk] for chunk in message.chunks) * size
            phases.append(Phase(0, tuple(Load(link, carried) for link, _ in cluster.route(message.source, message.to).links)))
    network = Network(clock, cluster.links(), phases)
    started = 0

    def run():
        nonlocal started
        for messages in expansion.rounds:
            waits = []
            for _ in messages:
                done = Signal()
                clock.call_after(cluster.latency_ps, lambda what: network.send(*what), (started, done))
                started += 1
                waits.append(done)
            for done in waits:
                if done.callbacks is not None:
                    yield done

    clock.process(run())
    clock.run()
    return clock.now


IN_ROUNDS = [case for case in cases(OPS) if case[1] not in ("tree", "in-switch") and case[2] <= 8]
IN_ROUNDS = [case for case in IN_ROUNDS if case[0] != "broadcast" or case[1] == "direct"]


@pytest.mark.parametrize(("op", "algorithm", "n", "per_node"), IN_ROUNDS)
def test_a_collective_takes_as_long_as_its_messages(op, algorithm, n, per_node):
    cluster = star(n, per_node, 12345)
    expansion = expand(op, algorithm, lay_out(cluster, range(n)))
    for size in (1, 10**6 + 1, 10**9):
        expected = in_rounds_ps(cluster, expansion, size)
        assert alone_ps(cluster, range(n), op, algorithm, size) == pytest.approx(expected, abs=len(expansion.rounds))


def in_stream_ps(cluster, edges, pieces):
    """Pieces that follow one another over each edge (bytes of a piece, links, latency, edges whose piece must have arrived)."""
    clock = Clock()
    loads = [Phase(0, tuple(Load(link, volume) for link in links)) for volume, links, _, _ in edges.values() for _ in range(pieces)]
    network = Network(clock, cluster.links(), loads)
    arrived = {(edge, piece): clock.event() for edge in edges for piece in range(pieces)}

    def send(number, edge):
        _, _, latency, after = edges[edge]
        for piece in range(pieces):
            left = 0
            for before in after:
                signal = arrived[before, piece]
                left = max(left, (yield signal) if signal.callbacks is not None else signal.value)
            if clock.now < left + latency:
                yield clock.timeout(left + latency - clock.now)
            done = Signal()
            network.send(number * pieces + piece, done)
            yield done
            arrived[edge, piece].succeed(clock.now)

    for number, edge in enumerate(edges):
        clock.process(send(number, edge))
    clock.run()
    return clock.now


def tree_edges(cluster, n, size, pieces):
    edges = {}
    for number, parents in enumerate(two_trees(n)[0]):
        root = parents.index(-1)
        for member, parent in enumerate(parents):
            if parent < 0:
                continue
            below, beside = ([("up", number, child) for child in range(n) if parents[child] == top] for top in (member, root))
            above = beside if parent == root else [("down", number, parent)]
            for way, a, b, after in (("up", member, parent, below), ("down", parent, member, above)):
                links = [link for link, _ in cluster.route(a, b).links]
                edges[way, number, member] = (Fraction(size, 2 * pieces), links, cluster.latency_ps, after)
    return edges


@pytest.mark.parametrize("n", range(2, 14))
def test_two_trees_take_as_long_as_their_stream_of_pieces(n):
    cluster, size, pieces = Star(n, 3 * GB, 1000), 3 * 10**9, 48
    taken = in_stream_ps(cluster, tree_edges(cluster, n, size, pieces), pieces)
    told = alone_ps(cluster, range(n), "all_reduce", "tree", size)
    # A stream of finitely many pieces takes longer by a few of them for each level; some latency hides behind the other tree's bytes.
    latency = 2 * (n.bit_length() - 1) * 1000
    assert told - latency <= taken + 1 <= told * (1 + Fraction(4 * n.bit_length(), pieces))
    cluster = Star(n, 3 * GB, 10**9)
    taken = in_stream_ps(cluster, tree_edges(cluster, n, 48, 1), 1)
    assert taken == pytest.approx(alone_ps(cluster, range(n), "all_reduce", "tree", 48), rel=1e-4)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_broadcast_takes_as_long_as_its_stream_of_pieces(n):
    cluster, size, pieces = Star(n, 3 * GB, 1000), 3 * 10**9, 50
    edges = {}
    for hop in range(n - 1):
        links = [link for link, _ in cluster.route(hop, hop + 1).links]
        edges[hop] = (Fraction(size, pieces), links, 1000, [hop - 1] if hop else [])
    # Each hop but the first begins a piece later.
    expected = in_stream_ps(cluster, edges, pieces) - (n - 2) * 10**12 // pieces
    assert alone_ps(cluster, range(n), "broadcast", "ring", size) == pytest.approx(expected, abs=n)


@pytest.mark.parametrize("n", [3, 4, 8])
@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter", "all_gather", "broadcast"])
def test_a_switch_takes_as_long_as_its_stream_of_pieces(op, n):
    cluster, size, pieces = star(n, n, 1000), 3 * 10**9, 50
    up, down = {"reduce_scatter": (1, Fraction(1, n)), "all_gather": (Fraction(1, n), 1)}.get(op, (1, 1))
    senders = range(1) if op == "broadcast" else range(n)
    edges = {("up", member): (2 * up * Fraction(size, pieces), [member], 500, []) for member in senders}  # half the rate is reached
    for member in range(n):
        edges["down", member] = (2 * down * Fraction(size, pieces), [n + member], 500, [("up", member) for member in senders])
    # Down begins a piece later than up: the shorter of the two is not hidden.
    expected = in_stream_ps(cluster, edges, pieces) - int(min(up, down) * 2 * 10**12 / pieces)
    assert alone_ps(cluster, range(n), op, "in-switch", size) == pytest.approx(expected, abs=pieces)
