"""The reference of topology files: its examples load, its tables have every key of the readers, its commands run."""

import copy
import inspect
import json
import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

from clustersim import document, presets, units
from clustersim.cli import main
from clustersim.cluster import explicit, fabrics, gpus, links, load, network, node, routes, spec
from clustersim.cluster.describe import describe
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.collectives import algorithms, protocols
from clustersim.errors import InputError
from clustersim.experiment import load as load_experiment
from tests.importers import samples

ROOT = Path(__file__).parents[2]
README = (ROOT / "topologies" / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


EXPERIMENTS = [text for text in blocks("yaml") if "model" in yaml.safe_load(text)]
EXAMPLES = [text for text in blocks("yaml") if text not in EXPERIMENTS]
FIRST = EXAMPLES[0]


def completed(text):
    """The text of an example; one without ``gpu:`` in the first example, in the place of its section."""
    if "gpu" in yaml.safe_load(text):
        return text
    kept = [part for part in re.split(r"^(?=\w)", FIRST, flags=re.MULTILINE) if part and part.split(":")[0] not in yaml.safe_load(text)]
    return "".join(kept) + text


def checked(folder, text):
    (folder / "my-box.yaml").write_text(text, encoding="utf-8")
    return check_cluster(folder / "my-box.yaml")


@cache
def sections():
    """By heading the rows of its table: {keys: cells}."""
    found = {}
    for part in re.split(r"^#+ ", README, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        rows = [line for line in body.splitlines() if line.startswith("| ")]
        found[heading.strip("`")] = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return found


def keys_of(heading):
    """(key, row) of a table of keys."""
    return [(key, row) for row in sections()[heading][1:] for key in re.findall(r"`(\w+)`", row[0])]


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_loads(text, tmp_path):
    cluster = checked(tmp_path, completed(text))
    for nodes in () if cluster.whole or cluster.ideal else (1, 3):
        assert load_cluster("my-box.yaml", gpus=1, nodes=nodes, overrides={}, near=tmp_path, place="x").nodes == nodes


def test_the_example_experiment_loads(tmp_path):
    checked(tmp_path, FIRST)
    (experiment,) = EXPERIMENTS
    (tmp_path / "e.yaml").write_text(experiment, encoding="utf-8")
    read = load_experiment(tmp_path / "e.yaml")
    assert read.cluster.name == "my-box" and read.cluster.nodes == 4


def example(layout):
    (text,) = (text for text in EXAMPLES if (yaml.safe_load(text).get("network") or {}).get("layout") == layout)
    return text


def test_there_is_one_example_per_layout():
    assert all(example(layout) for layout in network.LAYOUTS)


@pytest.mark.parametrize(
    "layout, nodes, between, rates",
    [
        ("leaf-spine", 8, "leaf - spine", [(2 * 2 * 8, 50)]),
        ("rail", 32, "leaf - spine", [(2 * 16 * 4, 100)]),
        ("fat-tree", 16, "leaf - spine", [(2 * 8 * 4, 100)]),
        ("fat-tree", 16, "spine - core", [(2 * 2 * 4 * 2, 100)]),
        ("dragonfly", 72, "router - router", [(9 * 4 * 3 + 9 * 8, 50)]),
        ("torus", 32, "router - router", [(32 * 5, 50)]),
    ],
)
def test_the_comments_of_the_layouts_are_right(layout, nodes, between, rates, tmp_path):
    checked(tmp_path, completed(example(layout)))
    cluster = load_cluster("my-box.yaml", gpus=1, nodes=nodes, overrides={}, near=tmp_path, place="x")
    counts = {}
    for row in describe(cluster)["links"]:
        if row["between"] == between:
            counts[row["bandwidth_bytes_s"] / 1e9] = counts.get(row["bandwidth_bytes_s"] / 1e9, 0) + row["count"]
    assert [(count, rate) for rate, count in counts.items()] == rates
    if layout in ("fat-tree", "dragonfly", "torus"):
        with pytest.raises(InputError):
            load_cluster("my-box.yaml", gpus=1, nodes=nodes + 1, overrides={}, near=tmp_path, place="x")


NODE_DEVICES = "node:\n  devices: {g: {kind: gpu, zzz: 1}}\n  links: []\n"
WHOLE_DEVICES = "devices: {g: {kind: gpu, zzz: 1}}\nlinks: []\n"
LINK = "devices: {g: gpu, s: nvswitch}\nlinks: [{from: g, to: s, zzz: 1}]\n"
MESH = "network: {layout: torus, dimensions: [8], bandwidth: 1 GB/s, latency: 1 us, "
PROBES = {
    "The file": ["zzz: 1\n"],
    "gpu": ["gpu: {zzz: 1}\n"],
    "gpu.peak": ["gpu: {name: g, memory: 1 GB, memory_bandwidth: 1 GB/s, efficiency: 1, peak: {zzz: 1}}\n"],
    "node": ["node: {zzz: 1}\n"],
    "node.nvlink": ["node: {gpus: 2, nvlink: {zzz: 1}, pcie: {bandwidth: 1 GB/s, latency: 1 us}}\n"],
    "node.pcie": ["node: {gpus: 2, pcie: {zzz: 1}}\n"],
    "network": ["network: {zzz: 1}\n"],
    "network.levels": ["network: {layout: fat-tree, levels: [{zzz: 1}], bandwidth: 1 GB/s, latency: 1 us}\n"],
    "network.trunk": [MESH + "trunk: {zzz: 1}}\n"],
    "devices": [WHOLE_DEVICES, NODE_DEVICES],
    "links": [LINK, "node:\n" + re.sub("^", "  ", LINK, flags=re.MULTILINE)],
    "collectives": ["collectives: {zzz: 1}\n"],
    "collectives.protocols": ["collectives: {protocols: {simple: {zzz: 1}}}\n"],
}


def allowed(folder, probe):
    """The keys that the reader names when it meets one that it does not know."""
    text = completed(probe)
    if probe in (WHOLE_DEVICES, LINK):
        text = re.sub(r"^(node|network):.*?^(?=\w)", "", text, flags=re.DOTALL | re.MULTILINE)
    elif probe.startswith("gpu"):
        text = probe
    with pytest.raises(InputError) as error:
        checked(folder, text)
    return re.fullmatch(r".*zzz: unknown key.*; allowed: ([\w, ]+)", str(error.value))[1].split(", ")


@pytest.mark.parametrize("heading", PROBES)
def test_a_table_has_the_keys_that_its_reader_allows(heading, tmp_path):
    wanted = {key for probe in PROBES[heading] for key in allowed(tmp_path, probe)}
    found = [key for key, _ in keys_of(heading)]
    assert set(found) == wanted and len(found) == len(wanted)


def test_every_section_that_is_read_has_a_table():
    parts = (load, gpus, node, network, explicit, protocols, spec, load.networks.read_trunk)
    sources = "".join(inspect.getsource(part) for part in parts)
    read = set(re.findall(r'(?:section|items)\((?:section, |network, )?"(\w+)"', sources))
    tables = {part for heading in PROBES for part in heading.split(".")} | {"ports"}
    assert read >= {"gpu", "peak", "node", "nvlink", "pcie", "network", "trunk", "levels", "links", "collectives", "protocols"}
    assert read <= tables


def test_every_named_key_and_value_is_there():
    named = (
        *load._KEYS, *node.KEYS, *network.KEYS, *load.LINK_KEYS, *load.NETWORK_KEYS, *explicit._DEVICE_KEYS, *explicit._LINK_KEYS,
        *protocols._HOPS,
        *network.LAYOUTS, *routes.ROUTINGS, *links.LINK_KINDS, *explicit.ALL_KINDS, *spec.PRECISIONS, *algorithms.ALGORITHMS,
    )  # fmt: skip
    assert [name for name in named if f"`{name}`" not in README] == []


def walk(data, path=()):
    for key, value in data.items():
        yield (*path, key)
        for place, inner in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(inner, dict):
                yield from walk(inner, (*path, key) if place is None else (*path, key, place))


def without(data, path):
    data = copy.deepcopy(data)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    return data


def heading_of(path):
    """The table that has the last key of a path; None where it is a name of the file's own."""
    parts = [part for part in path[:-1] if isinstance(part, str)]
    if "devices" in parts:
        return "devices" if parts[-1] != "devices" else None
    if "protocols" in parts:
        return "collectives.protocols" if parts[-1] != "protocols" else None
    return "links" if "links" in parts else ".".join(parts) or "The file"


def test_a_key_without_default_is_called_required_and_no_other(tmp_path):
    seen = set()
    for text in EXAMPLES:
        data, own = yaml.safe_load(completed(text)), yaml.safe_load(text)
        for path in walk(data):
            heading = heading_of(path)
            if path[0] not in own or heading in (None, "gpu.peak"):
                continue
            seen.add((heading, path[-1]))
            default = dict(keys_of(heading))[path[-1]][3]
            try:
                checked(tmp_path, json.dumps(without(data, path)))
                refusal = ""
            except InputError as error:
                refusal = str(error)
            assert (default == "required") <= bool(refusal), path
            assert f"key {path[-1]!r} is missing" not in refusal or "required" in default, path
    unseen = {(heading, key) for heading in PROBES if heading != "gpu.peak" for key, _ in keys_of(heading)} - seen
    optional = {("The file", "description"), ("node.nvlink", "switches"), ("network.trunk", "efficiency")}
    assert unseen == optional


@pytest.mark.parametrize(
    "limit",
    [
        node._MAX_GPUS, node._MAX_NVLINKS, network._MOST, network._MOST_ROUTERS, network._MOST_WAYS, int(network._MAX_RATIO),
        fabrics.MAX_LINKS,
        document._MAX_TEXT,
    ],
)  # fmt: skip
def test_a_limit_of_the_readers_is_there(limit):
    assert re.search(rf"(?<![\d,]){limit:,}(?![\d,])", README)


def test_other_limits_are_there():
    for text in (
        f"{document.MAX_FILE_BYTES // 1000} kB", f"{document._MAX_DEPTH} levels", *units._LARGEST.values(),
        f"1 to {protocols._MOST_WIRE:g}",
        f"{load._LEAST_IN_SWITCH:g} to 1",
    ):  # fmt: skip
        assert text in README


def test_every_example_of_a_quantity_has_its_unit():
    rows = {row[0]: row[1] for row in sections()["Keys"][1:]}
    for dimension in ("bandwidth", "size", "time", "compute"):
        for text in re.findall(r"`([^`]+)`", rows[dimension]):
            assert units.parse(text, dimension) > 0


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with the first example, and the two tools of a machine that are not here."""
    checked(tmp_path, FIRST)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "table").write_text(samples.hgx_h100())
    (tools / "xml").write_text(samples.dgx_a100_xml())
    (tools / "nvidia-smi").write_text(f'#!/bin/sh\n[ "$1" != topo ] || cat {tools}/table\n')
    (tools / "all_reduce_perf").write_text(f'#!/bin/sh\n[ -z "$NCCL_TOPO_DUMP_FILE" ] || cat {tools}/xml > "$NCCL_TOPO_DUMP_FILE"\n')
    for tool in ("nvidia-smi", "all_reduce_perf"):
        (tools / tool).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_every_command_runs(machine, capsys):
    ours = [block for block in blocks("sh") if block.startswith("clustersim")]
    theirs = [block for block in blocks("sh") if block not in ours]
    for line in "".join(theirs).splitlines():
        assert re.match(r"(NCCL_\w+=\S+ )*(nvidia-smi|all_reduce_perf) ", line)
        subprocess.run(["sh", "-ec", line], check=True)
    assert len(ours) == 3 and "import" in ours[2]
    for line in "".join(ours).splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "clustersim" and main(words[1:]) == 0, line
        assert capsys.readouterr().out.strip()
    assert all((machine / name).is_file() for name in ("my-box.png", "rail.svg", "runs/topology-my-box.png"))


def test_no_command_is_only_in_the_text():
    assert re.findall(r"`clustersim (?!topology show NAME|collective`)[^`]*`", README) == []


def test_every_option_of_import_is_in_the_table(cli):
    options = set(re.findall(r"^  (--?\w+)", cli("topology", "import", "--help").out, flags=re.MULTILINE)) - {"-h", "--json"}
    assert {row[0].strip("`") for row in sections()["Commands"][1:]} == options


def test_the_links_lead_to_headings():
    headings = re.findall(r"^#+ (.+)$", README, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= slugs


def test_the_list_of_files_is_whole():
    listed = [name for row in sections()["Files here"][1:] for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(listed) == presets.names("topologies")
