"""Links may be left out only where nobody would notice: the network with all its links is the oracle."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from clustersim.engine.events import Clock, Signal
from clustersim.engine.links import Network
from clustersim.engine.sharing import Crossing
from clustersim.engine.ways import find_ways
from clustersim.program.program import Links, Load, Phase

GB = 10**9


def ends(capacities, phases, plan, carriers=None):
    """When each stream's phases are across, in ps; ``plan`` by stream has (wait in ps, phase)."""
    clock, found = Clock(), {}
    count = len(capacities)
    network = Network(clock, Links(tuple(map(str, range(count))), ("network",) * count, capacities, (1,) * count), phases, carriers)

    def stream(number, items):
        for position, (wait, phase) in enumerate(items):
            waited, done = Signal(), Signal()
            clock.set_off(waited, wait)
            yield waited
            network.send(phase, done)
            yield done
            found[number, position] = clock.now

    for number, items in enumerate(plan):
        clock.process(stream(number, items))
    clock.run()
    return found


def test_of_links_that_fill_together_one_stays():
    # Link 1 is full whenever link 0 is, and bears its only stream; but without both nothing holds up the first phase.
    load = [Load(link, Fraction(GB)) for link in range(3)]
    phases = [Phase(0, (load[0], load[1])), Phase(0, (load[1], load[2]))]
    plan = [[(0, 0), (0, 1)]]
    # 1 GB at 10 GB/s, then 1 GB at 5 GB/s
    assert ends((10 * GB, 10 * GB, 5 * GB), phases, plan, [{0}, {0}]) == {(0, 0): 10**11, (0, 1): 3 * 10**11}
    ways = find_ways(phases, [10, 10, 5], [{0}, {0}])
    assert all(ways.ways[way].crossings for way in ways.way)


def test_of_unlike_links_that_fill_together_neither_makes_the_other_needless():
    # Half of the bytes cross link 1, which has half the capacity.
    phases = [Phase(0, (Load(0, Fraction(GB)), Load(1, Fraction(GB, 2))))]
    assert ends((10 * GB, 5 * GB), phases, [[(0, 0)]]) == {(0, 0): 10**11}


@given(
    capacities=st.lists(st.sampled_from([1, 2, 5, 10]), min_size=5, max_size=5),
    paths=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True), min_size=1, max_size=5),
    plan=st.lists(st.lists(st.tuples(st.sampled_from([0, 10**10, 3 * 10**11]), st.integers(0, 4)), max_size=4), min_size=1, max_size=4),
)
def test_links_that_are_left_out_change_nothing(capacities, paths, plan):
    plan = [[(wait, phase % len(paths)) for wait, phase in items] for items in plan]
    phases = [Phase(0, tuple(Load(link, Fraction(GB)) for link in path)) for path in paths]
    carriers = [{number for number, items in enumerate(plan) if any(phase == one for _, phase in items)} for one in range(len(paths))]
    # A phase of its own over each link, which is never sent, keeps the link.
    keeping = [Phase(0, (Load(link, Fraction(GB)),)) for link in range(5)]
    kept = [*carriers, *({100 + link, 200 + link} for link in range(5))]
    capacities = tuple(capacity * GB for capacity in capacities)
    ways = find_ways([*phases, *keeping], [capacity * 10**6 for capacity in capacities], kept)
    assert all(len(ways.ways[ways.way[number]].crossings) == len(path) for number, path in enumerate(paths))
    assert ends(capacities, phases, plan, carriers) == ends(capacities, [*phases, *keeping], plan, kept)


def test_shares_of_other_flows_are_not_taken_for_known():
    # Two flows on no full link, then one on link 1 with one unit left: both are told by the pairs (0, 1) and (1, 1).
    links = Links(("0", "1"), ("network",) * 2, (GB, GB), (1, 1))
    network = Network(Clock(), links, [Phase(0, (Load(link, Fraction(GB)),)) for link in range(2)])
    first, second = network._bundles
    first.count = second.count = 1
    assert len(network._shares({first: (0, -1), second: (0, -1)}, [[], []], {})) == 2
    assert len(network._shares({first: (0, -1)}, [[Crossing(1)]], {1: 1})) == 1
