"""Short ways to an experiment, for tests."""

from pathlib import Path

from clustersim import document, experiment, simulation


def parsed(text: str):
    return experiment.parse(document.loads(text, "test.yaml"), Path("."))


def simulated(text: str, fold: bool = True):
    return simulation.simulate(parsed(text), fold)


def unit_cost(layers, pipeline, micro_batches, strategy, *, data=1, forward=1, backward=3, extra="", cost=""):
    """A run at fixed costs in seconds, on a cluster without links."""
    return simulated(
        f"""
model: {{layers: {layers}, hidden: 64, heads: 4}}
cluster: ideal
parallel: {{pipeline: {pipeline}, data: {data}}}
strategy: {strategy}
batch: {{global: {micro_batches * data}, micro: 1, sequence: 128}}
cost: {{forward: {forward} s, backward: {backward} s{cost}}}
{extra}
"""
    )
