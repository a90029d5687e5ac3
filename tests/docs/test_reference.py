"""The reference has every key, figure and column that there is, with its default, and nothing else."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from clustersim import document
from clustersim.cli import main
from clustersim.compute import calibration, software
from clustersim.compute.tables import COLUMNS
from clustersim.errors import InputError
from clustersim.experiment import KEYS, MAX_LAYER_PASSES, MAX_UNFOLDED_PASSES, Experiment, parse
from clustersim.model.presets import NAMES
from clustersim.program.kinds import KINDS, MEMORY
from clustersim.read_grid import MAX_GPUS
from tests.docs.pages import names, tables, text_of

EXPERIMENT, SUMMARY, TRACE, CALIBRATION = (f"reference/{name}.md" for name in ("experiment", "summary", "trace", "calibration"))
BASE = {
    "model": {"layers": 4, "hidden": 64, "heads": 4},
    "cluster": "pcie-ethernet",
    "strategy": {"name": "mpp", "partition": "parameters"},
    "batch": {"global": 8, "sequence": 128},
}
MIXTURE = {**BASE["model"], "experts": 4, "top_k": 2}
IDEAL = {"cluster": "ideal", "cost": {"forward": "1 s", "backward": "2 s"}}
SECTIONS = {  # by heading of the table the path of the section
    "The file": "", **{name: name for name in ("model", "parallel", "strategy", "batch", "cost", "variability", "sweep")},
    "network`, `nvlink`, `pcie": "network",
}  # fmt: skip
ITEMS = {"variability.slow_gpus": {"rank": 0, "times": 2}, "variability.slow_links": {"link": "node0/nic0>network", "capacity": 0.5}}


def keys_of(page, heading):
    """By key the row of its table."""
    return {key: row for row in tables(page)[heading] for key in names(row[0])}


def read(data):
    return parse(document.loads(yaml.safe_dump(data), "e.yaml"), Path())


def put(data, path, value):
    """A copy with the value at a path; None takes the key out."""
    head, _, rest = path.partition(".")
    inner = {**data}
    if rest:
        inner[head] = put(inner.get(head) or {}, rest, value)
    elif value is None:
        inner.pop(head, None)
    else:
        inner[head] = value
    return inner


def allowed(data, path):
    """The keys that the reader names when it meets one that it does not know."""
    with pytest.raises(InputError) as error:
        read(put(data, f"{path}.zzz".strip("."), 1))
    return set(re.search(r"zzz: unknown key.*; allowed: ([\w, ]+)$", str(error.value))[1].split(", "))


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_table_has_the_keys_that_its_reader_allows(heading):
    wanted = allowed(BASE, SECTIONS[heading])
    if heading == "cost":
        wanted |= allowed(put(BASE, "cost.table", "x.csv"), "cost")
    if not SECTIONS[heading]:
        assert wanted == set(KEYS)
    assert set(keys_of(EXPERIMENT, heading)) == wanted


def test_nvlink_and_pcie_take_the_keys_of_the_network_but_routing():
    for kind in ("nvlink", "pcie"):
        assert allowed(BASE, kind) == set(keys_of(EXPERIMENT, "network`, `nvlink`, `pcie")) - {"routing"}


@pytest.mark.parametrize("path", ITEMS)
def test_a_table_has_the_keys_of_the_items_of_a_list(path):
    with pytest.raises(InputError) as error:
        read(put(BASE, path, [{**ITEMS[path], "zzz": 1}]))
    assert set(keys_of(EXPERIMENT, path)) == set(re.search(r"allowed: ([\w, ]+)$", str(error.value))[1].split(", "))
    for key in ITEMS[path]:
        with pytest.raises(InputError):
            read(put(BASE, path, [{name: value for name, value in ITEMS[path].items() if name != key}]))
        assert keys_of(EXPERIMENT, path)[key][3] == "required"


def defaults():
    """(path, value) where the table gives a value."""
    for heading, path in SECTIONS.items():
        for key, row in keys_of(EXPERIMENT, heading).items():
            given = re.match(r"`([^`]+)`(?:;|$)", row[3])
            if given:
                yield f"{path}.{key}".strip("."), yaml.safe_load(given[1])


@pytest.mark.parametrize(("path", "value"), list(defaults()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_default_is_what_is_taken_without_the_key(path, value):
    base = BASE
    if path.startswith("model.") and path != "model.experts":
        base = put(base, "model", MIXTURE)
    if path.startswith("cost.") or path == "link_delay":
        base = {**base, **IDEAL}
    with_it, without = read(put(base, path, value)), read(put(base, path, None))
    for field in fields(Experiment):
        if field.name not in ("document", "durations"):
            assert getattr(with_it, field.name) == getattr(without, field.name), field.name


REQUIRED = {
    **dict.fromkeys(("model", "cluster", "strategy", "batch", "batch.global", "strategy.name"), BASE),
    **dict.fromkeys((f"model.{key}" for key in BASE["model"]), BASE),
    **dict.fromkeys(("cost.forward", "cost.backward"), {**BASE, **IDEAL}),  # noqa: RUF024 - nothing changes it
    "model.top_k": put(BASE, "model", MIXTURE),
}


def test_what_is_called_required_is_and_nothing_else():
    said = {
        f"{path}.{key}".strip(".")
        for heading, path in SECTIONS.items()
        for key, row in keys_of(EXPERIMENT, heading).items()
        if row[3].startswith("required")
    }
    assert said == set(REQUIRED)
    for path, data in REQUIRED.items():
        read(data)
        with pytest.raises(InputError):
            read(put(data, path, None))


def test_every_preset_of_a_model_is_listed():
    listed = "".join(row[0] for row in tables(EXPERIMENT)["Models"])
    for name in NAMES:
        assert f"`{name}`" in listed or re.match(r"megatron-(?!1\.2b$|8\.3b$|1\.7b$|1008b$)[\d.]+b$", name), name
    assert {name for name in re.findall(r"`([^`]+)`", listed) if name != "x-N"} <= set(NAMES)


def test_the_limits_are_those_of_the_readers():
    limits = text_of(EXPERIMENT).split("**Limits.**")[1].split("\n\n")[0].replace("\n", " ")
    said = f"{document.MAX_FILE_BYTES // 1000} kB and {document._MAX_DEPTH} levels", f"{MAX_GPUS:,} GPUs", f"at most {MAX_LAYER_PASSES:,}"
    assert all(one in limits for one in (*said, f"({MAX_UNFOLDED_PASSES:,} over all copies"))


def test_values_that_are_listed_are_those_that_are_allowed():
    """Where a cell begins with words in backticks they are the choices."""
    for heading, path in SECTIONS.items():
        for key, row in keys_of(EXPERIMENT, heading).items():
            listed = re.findall(r"`([\w-]+)`", re.split(r"[;:]", row[2])[0]) if row[2].startswith("`") else []
            if key in ("name", "cost", "vary", "order", "partition_group") or set(listed) == {"true", "false"} or not listed:
                continue
            with pytest.raises(InputError) as error:
                read(put(BASE, f"{path}.{key}".strip("."), "zzz"))
            choices = set(re.search(r"allowed: ([\w, -]+)$", str(error.value))[1].split(", "))
            assert set(re.findall(r"`([\w-]+)`", row[2])) == choices, key


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with all kinds of parallelism, one that does not fit, and the analysis of the first."""
    at = tmp_path_factory.mktemp("runs")
    whole = put(BASE, "parallel", {"data": 2, "pipeline": 2, "tensor": 2})
    for name, data in (("whole", whole), ("large", put(BASE, "model.hidden", 65536))):
        (at / f"{name}.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
        assert main(["run", str(at / f"{name}.yaml"), "-o", str(at / name)]) == 0
    assert main(["analyze", str(at / "whole"), "-o", str(at / "analysis")]) == 0
    assert main(["convert", str(at / "whole"), "--to", "parquet", "--ranks", "0", "-o", str(at / "part")]) == 0
    return at


def test_the_summary(folder):
    rows = keys_of(SUMMARY, "The summary")
    fits, large = (json.loads((folder / name / "summary.json").read_text()) for name in ("whole", "large"))
    assert set(rows) == set(fits) | {"memory_advice"} == set(large)
    assert set(names(rows["per_rank"][2])) == set(fits["per_rank"]) | {"min", "median", "max"}
    assert set(names(rows["memory_at_peak_bytes"][2])) == set(MEMORY)
    assert set(names(rows["communication_bytes"][2])) >= set(fits["communication_bytes"])
    assert set(names(rows["links"][2])) == {key for kind in fits["links"].values() for key in kind}


def test_the_files_of_a_run(folder):
    listed = {name for row in tables(TRACE)["The run folder"] for name in names(row[0])}
    assert listed == {path.name for path in (folder / "whole").iterdir()}


TYPES = {"str": "text", "object": "text"}


OF_ANALYSIS = ("critical_path", "slack", "links_over_time")


@pytest.mark.parametrize("name", ["ops", "dependencies", "links", "memory", "link_totals", "ranks", *OF_ANALYSIS])
def test_the_columns_of_a_table(folder, name):
    at = folder / ("analysis" if name in OF_ANALYSIS else "whole")
    found = {column: TYPES.get(str(kind), str(kind)) for column, kind in pd.read_parquet(at / f"{name}.parquet").dtypes.items()}
    assert {key: row[1] for key, row in keys_of(TRACE, f"{name}.parquet").items()} == found


def test_no_table_is_left_out(folder):
    written = {path.name for at in ("whole", "analysis") for path in (folder / at).glob("*.parquet")}
    assert {heading for heading in tables(TRACE) if heading.endswith(".parquet")} == written


def test_kinds_of_ops_and_of_memory():
    assert set(names(keys_of(TRACE, "ops.parquet")["kind"][2])) == set(KINDS)
    assert set(names(keys_of(TRACE, "memory.parquet")["what"][2])) == set(MEMORY)


def test_the_manifest(folder):
    whole, part = (json.loads((folder / name / "manifest.json").read_text()) for name in ("whole", "part"))
    assert set(keys_of(TRACE, "manifest.json")) == set(whole) | {"cut"} == set(part)


def test_the_keys_of_a_calibration_and_of_kernels():
    assert set(keys_of(CALIBRATION, "Keys of a calibration")) == set(calibration.KEYS)
    attention = text_of(CALIBRATION).split("### `attention`")[1].split("##")[0]
    assert set(names(attention)) == {"forward", "backward", *calibration.HEAD_SIZES}
    assert set(keys_of(CALIBRATION, "Measured kernels")) == set(COLUMNS)


def test_the_keys_of_a_software(monkeypatch):
    whole = document.load(software._FOLDER / "megatron-2024.yaml")
    for path, heading in (("", "Keys of a software file"), ("memory", "memory")):
        wrong = replace(whole, data=put(whole.data, f"{path}.zzz".strip("."), 1))
        monkeypatch.setattr(software, "_read", lambda _, wrong=wrong: wrong)
        with pytest.raises(InputError) as error:
            software.load_software.__wrapped__("megatron-2024")
        wanted = set(re.search(r"zzz: unknown key.*; allowed: ([\w, ]+)$", str(error.value))[1].split(", "))
        assert set(keys_of(CALIBRATION, heading)) == wanted
