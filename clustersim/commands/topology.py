"""``clustersim topology show`` and ``check``."""

from __future__ import annotations

import argparse
from pathlib import Path

from clustersim.cluster.describe import describe, tables
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.commands.output import console, print_files, print_json
from clustersim.plots.topology import draw_topology


def show(options: argparse.Namespace) -> None:
    """Print a cluster's counts, capacities, bisection bandwidth and typical paths, and draw it."""
    place = options.cluster
    if options.nodes is None:
        cluster = check_cluster(place)
    else:
        cluster = load_cluster(place, gpus=1, nodes=options.nodes, overrides={}, near=Path(), place=place)
    figures = describe(cluster)
    files = []
    if options.output or not (options.json or cluster.ideal):
        path = Path(options.output or f"runs/topology-{cluster.name}.png")
        files.append(draw_topology(cluster, path, figures))
    if options.json:
        print_json(figures)
        return
    output = console()
    for table in tables(cluster, figures):
        output.print(table)
    if files:
        print_files(files)


def check(options: argparse.Namespace) -> None:
    """Read a topology file whole; the first thing that is wrong ends the command."""
    cluster = check_cluster(options.cluster)
    if options.json:
        print_json({"valid": True, "name": cluster.name, "gpus_per_node": cluster.gpus_per_node})
    else:
        print(f"{options.cluster}: right; {cluster.name}, {cluster.gpus_per_node} GPUs a node, every GPU reaches every other")
