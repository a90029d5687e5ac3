"""What flows that meet cost the engine: ``python benchmarks/sharing.py``.

Flows between random pairs of 1,024 GPUs of a fat-tree, as many at once as a row says: whoever is across is followed by another, so that
every end is an event at a time of its own, with a leave and a join. The time of an event and of a change of a flow's rate is
given in bare SimPy timeouts of the same run: what an event costs grows with the flows whose rates it changes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from benchmarks.yardstick import timeout_s
from clustersim.cluster.load import load_cluster
from clustersim.cluster.spec import Cluster
from clustersim.engine.events import Clock, Signal
from clustersim.engine.links import Network
from clustersim.program.program import Links, Load, Phase

GPUS = 1024
FLOWS = (100, 1_000, 10_000)
LARGEST = 2**30

# The preset's levels with switches listed one by one: 4 spines in a group and 4 cores, so that routes differ.
LEVELS = "  levels: [{ports: 20}, {ports: 20, oversubscription: 2, switches: 4}, {ports: 40, switches: 4}]\n"


def cluster_with(routing: str, directory: Path) -> Cluster:
    """The preset's nodes; its network as it is, or with the switches of a group one by one."""
    if routing == "preset":
        reference = "dgx-a100-fat-tree"
    else:
        preset = (Path(__file__).parent.parent / "topologies" / "dgx-a100-fat-tree.yaml").read_text()
        file = directory / f"{routing}.yaml"
        start, end = preset.index("  levels:"), preset.index("  bandwidth: 200 Gb/s")
        file.write_text(preset[:start] + LEVELS + f"  routing: {routing}\n" + preset[end:])
        reference = str(file)
    return load_cluster(reference, gpus=GPUS, nodes=None, overrides={}, near=directory, place="benchmark")


def random_phases(cluster: Cluster, count: int, chance: random.Random) -> tuple[Links, list[Phase]]:
    position: dict[int, int] = {}
    phases = []
    for number in range(count):
        a, b = chance.sample(range(GPUS), 2)
        size = chance.randint(LARGEST // 64, LARGEST)
        route = cluster.route(a, b, number).links
        phases.append(Phase(0, tuple(Load(position.setdefault(link, len(position)), size * Fraction(share), part=Fraction(share)) for link,
                                     share in route)))
    figures = [cluster.link_figures(link) for link in position]
    names = tuple(str(link) for link in position)
    return Links(names, tuple(f[0] for f in figures), tuple(f[1] for f in figures), (1,) * len(names)), phases


def run(cluster: Cluster, flows: int, events: int) -> tuple[float, int, float]:
    """Seconds, changes of a rate, and links a flow, of so many joins and leaves while ``flows`` are under way."""
    links, phases = random_phases(cluster, flows + events // 2, random.Random(flows))
    clock = Clock()
    network = Network(clock, links, phases)
    joined = left = 0

    def join() -> None:
        nonlocal joined
        done = Signal()
        done.callbacks.append(follow)
        network.send(joined, done)
        joined += 1

    def follow(_: Signal) -> None:
        nonlocal left
        left += 1
        if joined < len(phases):
            join()

    for _ in range(flows):
        join()
    while clock.peek() == 0:
        clock.step()  # all joined at once, and were settled once
    before, left, begin = network.retimed, 0, time.perf_counter()
    while 2 * left < events:
        clock.step()
    seconds = time.perf_counter() - begin
    return seconds, network.retimed - before, sum(len(phase.loads) for phase in phases) / len(phases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=int, nargs="*", default=FLOWS)
    parser.add_argument("--routing", nargs="*", default=("preset", "ecmp", "spread"))
    parser.add_argument("--events", type=int, help="joins and leaves that are timed (default: fewer where each costs more)")
    options = parser.parse_args()
    yardstick = 1 / timeout_s()
    print(f"bare timeouts per second: {yardstick:,.0f}")
    print(f"{'routing':8} {'flows':>7} {'links a flow':>12} {'events/s':>9} {'ms an event':>11} {'retimed an event':>16}"
          f" {'timeouts an event':>17} {'a retimed flow':>14}")
    with tempfile.TemporaryDirectory() as directory:
        for routing in options.routing:
            cluster = cluster_with(routing, Path(directory))
            for flows in options.flows:
                events = options.events or min(1000, 400_000 // flows)
                seconds, retimed, links = run(cluster, flows, events)
                each = seconds / events
                print(f"{routing:8} {flows:7,} {links:12.1f} {1 / each:9,.0f} {each * 1e3:11.3f} {retimed / events:16.1f}"
                      f" {each * yardstick:17,.0f} {seconds * yardstick / max(1, retimed):14.1f}", flush=True)


if __name__ == "__main__":
    main()
