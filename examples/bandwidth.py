"""How slow may the network be? A sweep from Python, read as a pandas table: ``python examples/bandwidth.py``."""

from __future__ import annotations

import clustersim


def main() -> None:
    table = clustersim.sweep(
        "x-32-ethernet",
        {"strategy.name": ["standard", "lga"], "network.bandwidth": "1..400Gb/s:log5"},
        folder="runs/example-bandwidth",  # run it again and nothing is simulated again
    )
    table["network, Gb/s"] = table["network.bandwidth"] * 8 / 1e9
    print(table.pivot(index="network, Gb/s", columns="strategy.name", values="slowdown").round(3))
    for knee in table.attrs["knees"]:
        print(f"{knee['strategy']} is within {knee['tolerance']:.0%} of an infinite network from {knee['value'] * 8 / 1e9:.1f} Gb/s on")


if __name__ == "__main__":
    main()
