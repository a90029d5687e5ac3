"""Run folders to damage, and damage to a Parquet table: of its bytes, of its columns, of its values."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from clustersim.cli import main
from tests.fuzz.mutations import mutated

_VALUES = (
    np.nan,
    np.inf,
    -np.inf,
    -1,
    0,
    1,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    1e300,
    0.5,
    None,
    "",
    "x",
    "\0",
    "é\n",
    "9" * 5000,
    b"\xff",
    True,
)
_TYPES = ("float64", "float32", "int8", "uint64", "str", "category", "bool", "datetime64[ns]", "object")


def made(command: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """What a command leaves in ``out`` or ``out.*``, by name."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _quiet():
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)
        if status := main(command.split()):
            raise RuntimeError(f"{command}: {status}")
        return {path.name: path.read_bytes() for path in (*Path().glob("out.*"), *Path("out").glob("*")) if path.is_file()}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def run_folder(experiment: str) -> dict[str, bytes]:
    return made("run e.yaml --no-plot -o out", {"e.yaml": experiment.encode()})


def exported(run: dict[str, bytes], kind: str) -> dict[str, bytes]:
    return made(
        f"convert run --to {kind} -o {'out.json' if kind == 'chrome' else 'out'}", {f"run/{name}": data for name, data in run.items()}
    )


def points(experiment: str) -> bytes:
    return made("sweep e.yaml --vary batch.global=2,4 --no-knees --jobs 1 -o out", {"e.yaml": experiment.encode()})["points.jsonl"]


def mutated_table(data: bytes, seed: int) -> bytes:
    """A quarter of the seeds damage the bytes, the others the table."""
    if seed % 4 == 0:
        return mutated(data, seed)
    chance = random.Random(seed)
    table = pd.read_parquet(io.BytesIO(data))
    for _ in range(chance.choice((1, 1, 2))):
        table = chance.choice((_drop, _retype, _value, _value, _value, _fill, _rows, _rename))(table, chance)
    file = io.BytesIO()
    try:
        table.to_parquet(file, index=False)
    except Exception:  # a table that Parquet cannot hold is no input
        return b""
    return file.getvalue()


def _column(table: pd.DataFrame, chance: random.Random) -> str | None:
    return chance.choice(list(table.columns)) if len(table.columns) else None


def _drop(table: pd.DataFrame, chance: random.Random) -> pd.DataFrame:
    return table.drop(columns=[_column(table, chance)] if len(table.columns) else [])


def _retype(table: pd.DataFrame, chance: random.Random) -> pd.DataFrame:
    name = _column(table, chance)
    try:
        return table.astype({name: chance.choice(_TYPES)}) if name else table
    except (ValueError, TypeError, OverflowError):
        return table.astype({name: "str"})


def _value(table: pd.DataFrame, chance: random.Random) -> pd.DataFrame:
    """One value of a column."""
    name = _column(table, chance)
    if name is None or not len(table):
        return table
    values = table[name].tolist()
    values[chance.randrange(len(values))] = chance.choice(_VALUES)
    return table.assign(**{name: values})


def _fill(table: pd.DataFrame, chance: random.Random) -> pd.DataFrame:
    """A column of one value."""
    name = _column(table, chance)
    return table if name is None else table.assign(**{name: [chance.choice(_VALUES)] * len(table)})


def _rows(table: pd.DataFrame, chance: random.Random) -> pd.DataFrame:
    """Rows left out, twice, or in another order."""
    order = chance.sample(range(len(table)), len(table))
    return table.iloc[chance.choice((order, order[: len(order) // 2], order[:1], [], sorted(order) * 2))]


def _rename(table: pd.DataFrame, chance: random.Random) -> pd.DataFrame:
    name = _column(table, chance)
    return table if name is None else table.rename(columns={name: chance.choice(("x", "", "rank_", "é"))})
