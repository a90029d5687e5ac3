"""What a slower network, a schedule with more stages and a throttled GPU cost: ``python examples/what_if.py``."""

from __future__ import annotations

import clustersim

CHANGES = {
    "as it is": [],
    "a quarter of the bandwidth": ["network.bandwidth=50 Gb/s"],
    "two stages a rank": ["strategy={name: interleaved-1f1b, chunks: 2}"],
    "one GPU 30 % slower": ["variability.slow_gpus=[{rank: 30, times: 1.3}]"],
}


def main() -> None:
    job = ["model=llama3-8b", "nodes=", "parallel={data: 4, pipeline: 4, tensor: 2}", "batch.global=64", "strategy.name=1f1b"]
    for name, change in CHANGES.items():
        run = clustersim.simulate(clustersim.load("gpt3-175b", [*job, *change]))
        print(f"{name}: a step of {run.summary['step_time_s']:.2f} s, bubble {run.summary['bubble_of_total']:.1%} of it")


if __name__ == "__main__":
    main()
