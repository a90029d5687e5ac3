"""``clustersim topology show`` and ``check``."""

from __future__ import annotations

import argparse
from pathlib import Path

from clustersim.cluster.describe import describe, tables
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.commands.output import console, print_json


def show(options: argparse.Namespace) -> None:
    """Print a cluster's counts, capacities and typical paths."""
    place = options.cluster
    cluster = load_cluster(place, gpus=1, nodes=options.nodes, overrides={}, near=Path(), place=place)
    if options.json:
        print_json(describe(cluster))
        return
    output = console()
    for table in tables(cluster):
        output.print(table)


def check(options: argparse.Namespace) -> None:
    """Read a topology file whole; the first thing that is wrong ends the command."""
    cluster = check_cluster(options.cluster)
    if options.json:
        print_json({"valid": True, "name": cluster.name, "gpus_per_node": cluster.gpus_per_node})
    else:
        print(f"{options.cluster}: right; {cluster.name}, {cluster.gpus_per_node} GPUs a node, every GPU reaches every other")
