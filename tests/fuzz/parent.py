"""Children one after the other, and what their inputs came to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def results(name: str, first: int, count: int) -> Iterator[dict[str, Any]]:
    """A row for each input of a target; one that ends its process has the outcome ``died``, and another process takes the next."""
    seed, end = first, first + count
    while seed < end:
        command = [sys.executable, "-m", "tests.fuzz.child", name, str(seed), str(end - seed)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
        with child:
            begun = False
            for line in child.stdout:
                row = json.loads(line)
                begun, seed = True, row["seed"] + 1
                yield row
            words = child.stderr.read()
        if not begun and child.returncode and "import" in words and "Error" in words:
            raise RuntimeError(words)
        if seed < end:
            yield {"target": name, "seed": seed, "outcome": "died", "words": f"{child.returncode}: {words[-1500:]}", "seconds": 0.0}
            seed += 1
