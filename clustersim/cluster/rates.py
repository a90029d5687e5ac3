"""The keys that give links their rates, and what an experiment may put in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from clustersim import units
from clustersim.cluster.links import LINK_KINDS, Rate
from clustersim.document import Section

LINK_KEYS = ("bandwidth", "latency", "efficiency")
NETWORK_KEYS = (*LINK_KEYS, "routing")
OVERRIDE_KEYS = MappingProxyType({"nvlink": LINK_KEYS, "pcie": LINK_KEYS, "network": NETWORK_KEYS})
"""For each kind of link the keys by which an experiment may change all of its links."""

Overrides = Mapping[str, Section]


def owner(kind: str, key: str, section: Section, overrides: Overrides) -> Section:
    """The section that says ``key`` for links of this kind: the override where it has the key, else ``section``."""
    override = overrides.get(kind)
    return override if override is not None and key in override else section


def read_rate(kind: str, section: Section, overrides: Overrides) -> Rate:
    """The rate in ``section``, with the overrides of its kind."""
    return Rate(
        kind,
        owner(kind, "bandwidth", section, overrides).quantity("bandwidth", "bandwidth", positive=True),
        units.to_ps(owner(kind, "latency", section, overrides).quantity("latency", "time")),
        owner(kind, "efficiency", section, overrides).number("efficiency", 1.0),
    )


def read_trunk(network: Section, overrides: Overrides, nic: Rate) -> tuple[Rate, bool]:
    """The rate of a link between switches, and whether the file gives its bandwidth; what it leaves out is as of a NIC's link.

    An override of the network's bandwidth changes it in proportion, so that a sweep keeps the shape of the network; one of
    latency or efficiency replaces it.
    """
    trunk = network.section("trunk", LINK_KEYS)
    given = trunk.quantity("bandwidth", "bandwidth", None, positive=True)
    bandwidth = nic.bandwidth_bytes_s
    if given is not None:
        nominal = network.quantity("bandwidth", "bandwidth", bandwidth, positive=True)
        bandwidth = max(1, round(given * bandwidth / nominal))
    latency = owner("network", "latency", trunk, overrides).quantity("latency", "time", None)
    efficiency = owner("network", "efficiency", trunk, overrides).number("efficiency", nic.efficiency)
    return Rate("network", bandwidth, nic.latency_ps if latency is None else units.to_ps(latency), efficiency), given is not None


def refuse_absent(overrides: Overrides, present: Sequence[str], name: str) -> None:
    """InputError for an override of links that the cluster does not have."""
    for kind, section in overrides.items():
        if section.data and kind not in present:
            has = f"it has {', '.join(k for k in LINK_KINDS if k in present)}" if present else "it has no links"
            section.error("", f"cluster {name} has no {kind} links to change; {has}")


def refuse_keys(section: Section, keys: Sequence[str], why: str) -> None:
    """InputError at the first of ``keys`` that is there."""
    for key in keys:
        if key in section:
            section.error(key, why)
