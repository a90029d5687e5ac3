"""Damaged files by the tens of thousands: every reader must take them or refuse them in one line.

    python -m benchmarks.fuzz                                  # 300 inputs for each of some 80 targets
    python -m benchmarks.fuzz --first 300 --count 1000         # others
    python -m benchmarks.fuzz --only kineto profile --count 5000

The inputs of the suite are the first few of each target. Each is known by its target and seed: what is found here is seen again with
``python -m tests.fuzz.child SEED 1 0 TARGET``.
"""

from __future__ import annotations

import argparse
from collections import Counter

from tests.fuzz.child import FINE
from tests.fuzz.parent import results
from tests.fuzz.targets import targets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=300, metavar="N", help="inputs of each target, default %(default)s")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="targets whose names begin so")
    options = parser.parse_args()
    names = [name for name in targets() if not options.only or name.startswith(tuple(options.only))]
    total: dict[str, Counter[str]] = {name: Counter() for name in names}
    for row in results(names, options.first, options.count):
        name = row["target"]
        total[name][row["outcome"]] += 1
        if row["outcome"] not in FINE:
            print(f"{name} {row['seed']}: {row['outcome']}: {row['words'][-1500:]}", flush=True)
        if total[name].total() == options.count:
            print(f"{name}: {dict(total[name])}", flush=True)
    every = sum(total.values(), Counter())
    print(f"{every.total():,} inputs: {dict(every)}")
    return any(kind not in FINE for kind in every)


if __name__ == "__main__":
    raise SystemExit(main())
