"""``nvidia-smi topo -m``: a table of codes between the GPUs and NICs of one node, made into a topology file.

    X  the device itself        PIX  at most one PCIe switch between      NODE  between host bridges of one NUMA node
    NV# bonded NVLinks          PXB  several, no host bridge              SYS   between sockets (once SOC)
                                PHB  a host bridge

With NVSwitch every pair shows all links of its GPUs (``NV18`` on H100): they are the same links. So where a row adds up to more
links than the GPU has, there is one switch; else each pair has its own links.

>>> text = "\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV12\\t0-15\\nGPU1\\tNV12\\t X \\t0-15\\n"
>>> imported = import_nvidia_smi(text, "topo.txt")
>>> [line.split("#")[0].strip() for line in imported.text.splitlines() if "pairs" in line]
['pairs: [[0, 1, 12]]']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clustersim import units
from clustersim.document import clipped, nearest, shown
from clustersim.errors import InputError
from clustersim.importers.common import Imported, option_text, readable, remark
from clustersim.importers.gpus import GENERATIONS, Generation, GpuSection, allowed_gpus, find_gpu
from clustersim.importers.node import Nic, Node, Nvlinks, PcieDevice, nearest_nics, numbered, why_idle
from clustersim.importers.topology_text import topology_text

WHAT = "the output of `nvidia-smi topo -m`"
NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS")
_CODES = f"X, NV and a number, {', '.join(NEAREST_FIRST)} or SOC"
_CODE = re.compile(r"NV[1-9][0-9]?|PIX|PXB|PHB|NODE|SYS|SOC|X")
_GPU, _DEVICE = re.compile(r"GPU[0-9]{1,4}"), re.compile(r"(?=\S*[0-9])[A-Za-z][A-Za-z0-9_.-]{1,30}")
_LEGEND_ENTRY = re.compile(r"\s*(NIC[0-9]{1,4})\s*:\s*(\S+)\s*")
_MAX_DEVICES = 512


@dataclass(frozen=True)
class _Table:
    """``codes[a][b]`` between devices, ``lines[a]`` the line of a row."""

    source: str
    devices: tuple[str, ...]
    codes: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def numbers(self, gpus: bool) -> list[int]:
        return [i for i, name in enumerate(self.devices) if bool(_GPU.fullmatch(name)) == gpus]

    def at(self, device: int) -> str:
        return f"{self.source}:{self.lines[device]}: {self.devices[device]}"


def import_nvidia_smi(
    text: str,
    source: str,
    *,
    gpu: str | None = None,
    network: str | None = None,
    nics: Sequence[str] | None = None,
    name: str = "imported",
) -> Imported:
    """A topology file from the output of ``nvidia-smi topo -m``; ``source`` is its name in messages.

    ``gpu`` names a GPU of a shipped topology (or ``fill-in``); without it the number of NVLinks must tell. ``network`` is the
    bandwidth of one NIC (``200 Gb/s``), which the table does not hold; by default that of the GPU generation's DGX. ``nics``
    limits the NICs that GPUs may use, by their names in the table or its legend. InputError, with the line, for whatever is wrong.
    """
    text = readable(text, source, WHAT)
    table = _read_table(text, source)
    legend = {match[1]: match[2] for line in text.split("\n") if (match := _LEGEND_ENTRY.fullmatch(line))}
    option_text(name, "--name", "a name for the cluster")
    notes: list[str] = []
    section, gpu_origin = _choose_gpu(table, gpu, notes)
    generation = section.generation
    nvlinks = _read_nvlinks(table, generation, notes)
    nic_numbers = _choose_nics(table, legend, nics)
    bandwidth, network_origin = _network(network, generation)
    distances = _distances(table, nic_numbers)
    used, nic_of_gpu = _affinity(nic_numbers, distances)
    gpus = table.numbers(gpus=True)
    switches = _pcie_switches(table, [*gpus, *used])
    pcie = [PcieDevice(switch, generation.pcie) for switch in switches]
    node = Node(
        name=name,
        source=source,
        gpu=section,
        gpu_origin=gpu_origin,
        nvlinks=nvlinks,
        gpus=tuple(pcie[: len(gpus)]),
        uplinks=(generation.pcie,) * len({*switches} - {None}),
        pcie_origin=f"assumed: {generation.pcie_source}",
        nics=tuple(
            Nic(_shown_nic(table.devices[i], legend), bandwidth, link, network_origin)
            for i, link in zip(used, pcie[len(gpus) :], strict=False)
        ),
        nic_of_gpu=nic_of_gpu,
        affinity_origin=f"nearest by the codes ({', '.join(NEAREST_FIRST)}), GPUs shared out evenly",
    )
    written, simplified = topology_text(node)
    notes.append(f"PCIe bandwidth is assumed, {generation.pcie} ({generation.pcie_source}): the table does not hold it")
    if used and network is None:
        notes.append(f"NIC bandwidth is assumed, {bandwidth}: the table does not hold it; --network gives it")
    unused = [
        f"{_shown_nic(table.devices[i], legend)}: {why_idle(nic_numbers.index(i), distances) if i in nic_numbers else 'not in --nics'}"
        for i in table.numbers(gpus=False)
        if i not in used
    ]
    unused.append("CPU and NUMA affinity: the file has one host")
    return Imported(written, (*notes, *simplified), tuple(unused))


def _read_table(text: str, source: str) -> _Table:
    lines = text.split("\n")
    header = next((i for i, line in enumerate(lines) if _is_header(line.split())), None)
    if header is None:
        raise InputError(f"{source}: no line of column names (GPU0 GPU1 ...) found; expected {WHAT}")
    devices: list[str] = []
    for word in lines[header].split():
        if not _DEVICE.fullmatch(word):
            break  # CPU Affinity, NUMA Affinity, GPU NUMA ID
        devices.append(word)
    if len(set(devices)) != len(devices) or len(devices) > _MAX_DEVICES:
        raise InputError(f"{source}:{header + 1}: expected at most {_MAX_DEVICES} columns, each device once")
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    for number, line in enumerate(lines[header + 1 :], header + 2):
        words = line.split()
        if not words or len(rows) == len(devices):
            continue
        expected = devices[len(rows)]
        if words[0] != expected:
            raise InputError(f"{source}:{number}: expected the row of {expected}, got {shown(words[0])}; is the table cut off?")
        rows.append(_read_row(words[1:], devices, len(rows), f"{source}:{number}: {expected}"))
        numbers.append(number)
    if len(rows) < len(devices):
        raise InputError(f"{source}:{len(lines)}: the row of {devices[len(rows)]} is missing; is the table cut off?")
    table = _Table(source, tuple(devices), tuple(rows), tuple(numbers))
    _check_symmetric(table)
    return table


def _is_header(words: list[str]) -> bool:
    """Begins with a GPU as a row does, but has no code."""
    return bool(words) and bool(_GPU.fullmatch(words[0])) and "X" not in words


def _read_row(words: list[str], devices: list[str], position: int, place: str) -> tuple[str, ...]:
    codes = words[: len(devices)]
    for column, code in zip(devices, codes, strict=False):
        if not _CODE.fullmatch(code):
            raise InputError(f"{place}: {shown(code)} in column {column} is no code; allowed: {_CODES}")
        if (code == "X") != (column == devices[position]):
            raise InputError(f"{place}: {code} in column {column}; expected X where a device meets itself, and only there")
    if len(codes) < len(devices):
        raise InputError(f"{place}: {len(codes)} codes for {len(devices)} columns; is the table cut off?")
    return tuple("SYS" if code == "SOC" else code for code in codes)


def _check_symmetric(table: _Table) -> None:
    for a, row in enumerate(table.codes):
        for b, code in enumerate(row[:a]):
            if table.codes[b][a] != code:
                raise InputError(
                    f"{table.at(a)}: {code} to {table.devices[b]}, but {table.codes[b][a]} the other way (line {table.lines[b]});"
                    " expected the same code both ways"
                )


def _bonded(table: _Table) -> dict[int, dict[int, int]]:
    """NVLinks between GPUs, counted as the table numbers them: from 0, GPUs only."""
    gpus = table.numbers(gpus=True)
    return {
        a: {b: int(table.codes[i][j][2:]) for b, j in enumerate(gpus) if table.codes[i][j].startswith("NV")}
        for a, i in enumerate(gpus)
    }


def _is_private(rows: dict[int, dict[int, int]], generation: Generation) -> bool:
    return max(sum(row.values()) for row in rows.values()) <= generation.nvlinks


def _choose_gpu(table: _Table, gpu: str | None, notes: list[str]) -> tuple[GpuSection, str]:
    if gpu is not None:
        section = find_gpu(gpu)
        return section, f"Asked for; from topologies/{section.topology}.yaml." if section.topology else "Asked for."
    rows = _bonded(table)
    most = max(max(row.values(), default=0) for row in rows.values())
    total = max(sum(row.values()) for row in rows.values())
    fits = [g for g in GENERATIONS.values() if total == g.nvlinks or (most == g.nvlinks and g.has_nvswitch)]
    labels = {generation.nvlinks: generation.label for generation in reversed(fits)}
    if len(labels) == 1:
        (links, label), = labels.items()
        others = "; other GPUs with as many would show the same"
        try:
            section = find_gpu(label)
        except InputError:
            labels = {}  # no shipped machine has one
        else:
            notes.append(f"GPU is assumed, {section.name}, by its {links} NVLinks{others}; --gpu gives another")
            return section, f"Assumed, by its {links} NVLinks{others}; from topologies/{section.topology}.yaml."
    reason = f"the codes fit {' and '.join(labels.values())}" if labels else "the codes do not tell"
    raise InputError(f"{table.source}: {reason} which GPU this is; --gpu must name it: {allowed_gpus()}")


def _read_nvlinks(table: _Table, generation: Generation, notes: list[str]) -> Nvlinks | None:
    rows = _bonded(table)
    if not any(rows.values()):
        return None
    counts = {count for row in rows.values() for count in row.values()}
    everyone = all(len(row) == len(rows) - 1 for row in rows.values())
    if generation.nvlinks:
        private = _is_private(rows, generation)
        limit = f"{generation.label} has {generation.nvlinks} NVLinks"
    else:
        # Of 3 or more GPUs that all show the same number, as no small mesh of a GPU without NVSwitch does.
        private = not (everyone and len(counts) == 1 and len(rows) > 2)
        limit = "the GPU's number of NVLinks is not known"
        notes.append(f"{limit}: {'each pair has its own links' if private else 'one NVSwitch'}, by the pattern of the codes")
    if private:
        pairs = tuple((a, b, count) for a, row in rows.items() for b, count in row.items() if a < b)
        return Nvlinks(f"rows add up to at most {max(sum(row.values()) for row in rows.values())} links; {limit}", pairs=pairs)
    gpus = table.numbers(gpus=True)
    for a, row in rows.items():
        if len(counts) > 1 or len(row) < len(rows) - 1:
            raise InputError(
                f"{table.at(gpus[a])}: its NVLinks add up to {sum(row.values())}, but {limit}: that is an NVSwitch, which shows the same"
                " NV# between all GPUs; allowed: such a table, or another --gpu"
            )
    (uplinks,) = counts
    if generation.nvlinks and uplinks > generation.nvlinks:
        raise InputError(f"{table.at(gpus[0])}: NV{uplinks}, but {limit}; allowed: at most NV{generation.nvlinks}, or another --gpu")
    return Nvlinks(f"NV{uplinks} between all GPUs: the same {uplinks} links of each, to NVSwitch", uplinks=(uplinks,) * len(rows))


def _choose_nics(table: _Table, legend: dict[str, str], wanted: Sequence[str] | None) -> list[int]:
    present = table.numbers(gpus=False)
    if wanted is None:
        return present
    by_name = {table.devices[i]: i for i in present}
    by_name |= {legend[column]: i for column, i in tuple(by_name.items()) if column in legend}
    for nic in wanted:
        if nic not in by_name:
            known = ", ".join(map(remark, by_name)) or "none, the table has no NICs"
            raise InputError(f"--nics: no NIC {shown(nic)} in {table.source}{nearest(str(nic), list(by_name))}; allowed: {clipped(known)}")
    return sorted({by_name[nic] for nic in wanted})


def _shown_nic(column: str, legend: dict[str, str]) -> str:
    return f"{column} ({remark(legend[column])})" if column in legend else column


def _distances(table: _Table, nics: list[int]) -> list[list[int]]:
    """From each GPU to each of ``nics``, by the codes."""
    distances = []
    for gpu in table.numbers(gpus=True):
        for nic in nics:
            if table.codes[gpu][nic] not in NEAREST_FIRST:
                raise InputError(f"{table.at(gpu)}: {table.codes[gpu][nic]} to a NIC; allowed: {', '.join(NEAREST_FIRST)}")
        distances.append([NEAREST_FIRST.index(table.codes[gpu][nic]) for nic in nics])
    return distances


def _affinity(nics: list[int], distances: list[list[int]]) -> tuple[list[int], tuple[int, ...]]:
    """The NICs that GPUs use, as table numbers, and for each GPU its position among them."""
    if not nics:
        return [], ()
    chosen = [nics[position] for position in nearest_nics(distances)]
    used = sorted(set(chosen))
    return used, tuple(used.index(nic) for nic in chosen)


def _pcie_switches(table: _Table, members: Sequence[int]) -> tuple[int | None, ...]:
    """For each of ``members`` the number of its PCIe switch, None on the host: those PIX apart share one, or where a GPU is at
    best PXB to others, those PXB apart."""

    def near(codes: tuple[str, ...]) -> list[int]:
        group = list(members)
        for a, device in enumerate(members):
            for b, other in enumerate(members[:a]):
                if table.codes[device][other] in codes and group[a] != group[b]:
                    old, new = group[a], group[b]
                    group = [new if number == old else number for number in group]
        return group

    inner = near(("PIX",))
    gpus = len(table.numbers(gpus=True))
    outer = any(inner.count(inner[gpu]) == 1 and "PXB" in table.codes[members[gpu]] for gpu in range(gpus))
    groups = near(("PIX", "PXB")) if outer else inner
    return numbered([group if groups.count(group) > 1 else None for group in groups])


def _network(network: str | None, generation: Generation) -> tuple[str, str]:
    if network is None:
        reason = f"the NICs of the DGX of {generation.label}" if generation.nvlinks else "a common speed"
        return generation.network, f"assumed: {reason}; the table does not hold it"
    try:
        if units.parse(network, "bandwidth") <= 0:
            raise ValueError(f"must be more than zero, got {shown(network)}; write for example {units.EXAMPLES['bandwidth']}")
    except ValueError as error:
        raise InputError(f"--network: {error}") from None
    return " ".join(str(network).split()), "asked for: one NIC"
