"""Damaged files given to commands in processes of their own, and what they came to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.child import cases

ROOT = Path(__file__).parents[2]


def results(names: Sequence[str], first: int, count: int) -> Iterator[dict[str, Any]]:
    """A row for each input; one that ends its process has the outcome ``died``, and another process takes those behind it."""
    wanted, seen = cases(first, count, names), 0
    while seen < len(wanted):
        command = [sys.executable, "-m", "tests.fuzz.child", str(first), str(count), str(seen), *names]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                seen += 1
                yield json.loads(line)
            words = child.stderr.read()
        if seen < len(wanted):
            name, seed = wanted[seen]
            seen += 1
            yield {"target": name, "seed": seed, "outcome": "died", "words": f"{child.returncode}: {words[-1500:]}", "seconds": 0.0}
