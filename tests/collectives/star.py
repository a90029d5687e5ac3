"""GPUs on one switch: a cluster of which everything can be said by hand."""

from fractions import Fraction

from clustersim.cluster.fabrics import FLAT
from clustersim.cluster.links import Link
from clustersim.cluster.spec import Route
from clustersim.program.program import Links

GB = 10**9
ONE = Fraction(1)


class Star:
    """n GPUs on one switch, ``per_node`` of them a node: an up link and a down link each."""

    ideal, link_delay_ps, protocols, in_switch, whole, fabric = False, 0, (), None, True, FLAT
    devices = (("switch", "nvswitch"),)

    def __init__(self, n, bytes_s, latency_ps=0, per_node=None):
        self.n, self.bytes_s, self.latency_ps = n, bytes_s, latency_ps
        self.gpus, self.gpus_per_node = n, per_node or n

    def route(self, a, b, flow=0):
        return Route(((a, ONE), (self.n + b, ONE)), self.latency_ps)

    def device_of(self, gpu):
        return f"gpu{gpu}"

    def link(self, number):
        ends = (f"gpu{number}", "switch") if number < self.n else ("switch", f"gpu{number - self.n}")
        return Link(">".join(ends), *ends, "network", self.bytes_s, 0)

    def link_figures(self, link):
        return "network", self.bytes_s, 0

    def links(self):
        names = tuple(map(str, range(2 * self.n)))
        return Links(names, ("network",) * 2 * self.n, (self.bytes_s,) * 2 * self.n, (1,) * 2 * self.n)
