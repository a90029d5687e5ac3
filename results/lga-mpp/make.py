"""Baseline against layered accumulation and modular pipelines (arXiv 2106.02679): tables, pictures, page.

    python results/lga-mpp/make.py

writes ``README.md``, the tables and the pictures beside this file, in some ten minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pictures
import tables
from configurations import base
from page import page

from clustersim.plots.files import save
from clustersim.sweeps.run import workers
from clustersim.trace.files import write_whole

FOLDER = Path(__file__).resolve().parent


TABLES = ("comparison", "sizes", "networks", "nodes", "memory", "intensity")


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables as they are on disk."""
    return {name: pd.read_csv(folder / f"{name}.csv") for name in TABLES}


def main(folder: Path = FOLDER) -> None:
    with workers(base()) as pool:
        made = {make.__name__: make(pool) for make in (tables.comparison, tables.sizes, tables.networks, tables.nodes, tables.memory)}
    made["intensity"] = tables.intensity()
    for name, table in made.items():
        write_whole(folder / f"{name}.csv", lambda path, table=table: table.to_csv(path, index=False))
    made = read(folder)
    draw(made, folder)
    write_whole(folder / "README.md", lambda path: path.write_text(page(made), encoding="utf-8"))


def draw(made: Mapping[str, pd.DataFrame], folder: Path) -> tuple[str, ...]:
    """The pictures of the tables; their names."""
    figures = {
        "comparison.png": lambda: pictures.comparison(made["comparison"]),
        "sizes.png": lambda: pictures.sizes(made["sizes"]),
        "networks.png": lambda: pictures.networks(made["networks"], made["nodes"]),
        "memory.png": lambda: pictures.memory(made["memory"]),
    }
    for name, figure in figures.items():
        save(folder / name, figure)
    return tuple(figures)


if __name__ == "__main__":
    main()
