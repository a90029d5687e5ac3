"""All benchmarks of the engine by one command: ``python -m benchmarks``. Writes results.csv and scale.png beside this file."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

HERE = Path(__file__).parent


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmarks.json"
        status = pytest.main([str(HERE), "-q", "-p", "no:cacheprovider", "--benchmark-quiet", f"--benchmark-json={path}", *sys.argv[1:]])
        if not path.is_file() or not path.read_text():
            return int(status)
        found = json.loads(path.read_text())
    table = pd.DataFrame([_row(one) for one in found["benchmarks"]])
    table["date"], table["machine"] = date.today().isoformat(), _machine(found["machine_info"])
    kept = _others(HERE / "results.csv", table)
    pd.concat([kept, table], ignore_index=True).to_csv(HERE / "results.csv", index=False)
    print(table.drop(columns=["date", "machine"]).to_string(index=False, na_rep=""))
    if "job" in table:
        draw(table.dropna(subset="job"), HERE / "scale.png")
    return int(status)


def _row(one: dict) -> dict:
    return {"benchmark": one["name"], "seconds": round(one["stats"]["min"], 3), **one["extra_info"]}


def _machine(info: dict) -> str:
    return f"{info['cpu'].get('count', '?')} cores, Python {platform.python_version()}"


def _others(path: Path, new: pd.DataFrame) -> pd.DataFrame | None:
    """Rows of benchmarks that did not run this time."""
    if not path.is_file():
        return None
    old = pd.read_csv(path)
    return old[~old["benchmark"].isin(new["benchmark"])]


def draw(table: pd.DataFrame, path: Path) -> None:
    """Seconds against GPUs, a line a job, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for (job, of), marker, colour in zip(table.groupby("job", sort=False), "os^", ("#0072B2", "#E69F00", "#009E73"), strict=False):
        axes.plot(of["gpus"], of["seconds"], marker=marker, color=colour, label=job)
    axes.set(xscale="log", yscale="log", xlabel="GPUs of the job", ylabel="time of a simulation, s")
    axes.grid(True, which="major", alpha=0.4)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
