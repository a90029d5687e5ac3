"""Baseline against layered accumulation and modular pipelines (arXiv 2106.02679): tables, pictures, page.

    python results/lga-mpp/make.py

writes ``README.md``, the tables and the pictures beside this file, in some ten minutes on two cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pictures
import tables
from configurations import base
from page import page

from clustersim.plots.files import save
from clustersim.sweeps.run import workers
from clustersim.trace.files import write_whole

FOLDER = Path(__file__).resolve().parent


def main(folder: Path = FOLDER) -> None:
    with workers(base()) as pool:
        made = {make.__name__: make(pool) for make in (tables.comparison, tables.sizes, tables.networks, tables.nodes, tables.memory)}
    made["intensity"] = tables.intensity()
    for name, table in made.items():
        write_whole(folder / f"{name}.csv", lambda path, table=table: table.to_csv(path, index=False))
    figures = {
        "comparison": lambda: pictures.comparison(made["comparison"]),
        "sizes": lambda: pictures.sizes(made["sizes"]),
        "networks": lambda: pictures.networks(made["networks"], made["nodes"]),
        "memory": lambda: pictures.memory(made["memory"]),
    }
    for name, figure in figures.items():
        save(folder / f"{name}.png", figure)
    write_whole(folder / "README.md", lambda path: path.write_text(page(made), encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
