"""A GPU under a generation of software: what part of its peaks it reaches.

One file a pair, ``clustersim/gpus/GPU/SOFTWARE.yaml``, which says where each figure is from and which rows it was fitted on; or a
user's own file of the same keys.

>>> calibration = load_calibration("A100-SXM4-80GB", "megatron-2022")
>>> calibration.gpu.multiprocessors, 0.5 < calibration.matmul_efficiency < 1
(108, True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from clustersim import document
from clustersim.cluster.gpus import FOLDER, find_gpu
from clustersim.cluster.spec import Gpu
from clustersim.compute.software import Software, load_software
from clustersim.document import Document, Section
from clustersim.errors import InputError

_FIGURES = ("matmul_efficiency", "fp8_efficiency", "memory_efficiency", "ramp", "unaligned", "overhead", "launch", "attention", "slowdown")
HEAD_SIZES = {f"head_{size}": size for size in (32, 64, 96, 128, 192, 256)}
"""By their keys in a file."""
KEYS = ("gpu", "software", "like", "source", "date", "rows", *_FIGURES)


@dataclass(frozen=True)
class Calibration:
    """``matmul_efficiency`` is the part of the peak that a large product reaches (in 8 bits ``fp8_efficiency``), ``memory_efficiency``
    that of the memory's bandwidth; ``ramp`` the inner size at which a product has half its speed, ``unaligned`` the part it keeps on
    rows that are no multiples of 16 bytes; ``overhead_s`` is between kernels, ``launch_s`` what the host needs for one.
    ``attention_forward`` and ``attention_backward`` map a head size to the part of the peak that a kernel reaches on long sequences.
    Beside a collective compute takes 1 + ``slowdown`` times as long.
    """

    gpu: Gpu
    software: Software
    matmul_efficiency: float
    fp8_efficiency: float
    memory_efficiency: float
    ramp: float
    unaligned: float
    overhead_s: float
    launch_s: float
    attention_forward: Mapping[int, float]
    attention_backward: Mapping[int, float]
    slowdown: float
    source: str

    def attention(self, head_size: int, backward: bool) -> float:
        """The part of the peak for a head size: between the given ones in proportion, beyond them as the nearest."""
        known = sorted((self.attention_backward if backward else self.attention_forward).items())
        below = [pair for pair in known if pair[0] <= head_size] or known[:1]
        above = [pair for pair in known if pair[0] >= head_size] or known[-1:]
        (a, low), (b, high) = below[-1], above[0]
        return low if a == b else low + (high - low) * (head_size - a) / (b - a)


def software_of(gpu: str) -> list[str]:
    """The generations that a GPU has a calibration for, sorted.

    >>> "megatron-2021" in software_of("A100-SXM4-80GB")
    True
    """
    return sorted(path.stem for path in (FOLDER / gpu).glob("*.yaml") if path.stem != "hardware")


def allowed_software(gpu: str) -> str:
    """The same for people, or what to do where there are none.

    >>> allowed_software("A10-24GB")
    'none; give `cost:` a calibration file, or the GPU an efficiency'
    """
    return ", ".join(software_of(gpu)) or "none; give `cost:` a calibration file, or the GPU an efficiency"


@lru_cache(maxsize=64)
def _shipped(gpu: str, software: str) -> Calibration:
    known = software_of(gpu)
    if software not in known:
        hint = f"{document.nearest(software, known)}; allowed: {allowed_software(gpu)}"
        raise InputError(f"no calibration of {gpu} under {document.shown(software)}{hint}")
    return read_calibration(document.load(FOLDER / gpu / f"{software}.yaml"))


def load_calibration(gpu: str, software: str, on: Gpu | None = None) -> Calibration:
    """The shipped calibration of a pair, on a GPU of that name whose figures differ where ``on`` is given.

    InputError, with what there is for the GPU, when there is none.
    """
    calibration = _shipped(gpu, software)
    return calibration if on is None else replace(calibration, gpu=on)


def read_calibration(read: Document, on: Gpu | None = None) -> Calibration:
    """A calibration file, for the GPU that it names or the one of that name that is given.

    ``like: GPU/SOFTWARE`` takes what the file leaves out from a shipped one.
    """
    top = read.section("", KEYS)
    gpu, software = top.text("gpu", expected="the name of a GPU"), top.text("software", expected="the name of a generation of software")
    base = _like(top)
    if on is not None and on.name != gpu:
        top.error("gpu", f"is for {document.shown(gpu)}, and the GPU of the cluster is {on.name}")
    if on is not None and on.multiprocessors is None:
        top.error("gpu", f"the cluster file does not say how many multiprocessors {gpu} has; give gpu.multiprocessors")
    attention = top.section("attention", ("forward", "backward"))
    return Calibration(
        gpu=on or _named(top, "gpu", find_gpu, gpu),
        software=_named(top, "software", load_software, software),
        matmul_efficiency=_figure(top, "matmul_efficiency", base),
        fp8_efficiency=_fp8(top, base),
        memory_efficiency=_figure(top, "memory_efficiency", base),
        ramp=_figure(top, "ramp", base, high=10_000),
        unaligned=_figure(top, "unaligned", base),
        overhead_s=_time(top, "overhead", base),
        launch_s=_time(top, "launch", base),
        attention_forward=_by_head_size(attention, "forward", base.attention_forward if base else None),
        attention_backward=_by_head_size(attention, "backward", base.attention_backward if base else None),
        slowdown=_figure(top, "slowdown", base, closed=True),
        source=top.text("source", expected="where the figures are from"),
    )


def _like(top: Section) -> Calibration | None:
    name = top.text("like", None)
    if name is None:
        return None
    gpu, slash, software = name.partition("/")
    if not slash:
        top.error("like", f"expected GPU/SOFTWARE, for example A100-SXM4-80GB/megatron-2022, got {document.shown(name)}")
    return _named(top, "like", lambda pair: load_calibration(*pair), (gpu, software))


_Name = TypeVar("_Name")
_Known = TypeVar("_Known")


def _named(top: Section, key: str, load: Callable[[_Name], _Known], name: _Name) -> _Known:
    try:
        return load(name)
    except InputError as error:
        top.error(key, str(error))


def _figure(top: Section, key: str, base: Calibration | None, high: float = 1.0, closed: bool = False) -> float:
    return top.number(key, high=high, closed=closed) if base is None or key in top else getattr(base, key)


def _fp8(top: Section, base: Calibration | None) -> float:
    """In 8 bits as in 16 where nothing is said; a file that says of 16 bits something else than ``like`` has the same ratio."""
    ratio = base.fp8_efficiency / base.matmul_efficiency if base else 1.0
    return top.number("fp8_efficiency", ratio * _figure(top, "matmul_efficiency", base))


def _time(top: Section, key: str, base: Calibration | None) -> float:
    return top.quantity(key, "time") if base is None or key in top else getattr(base, f"{key}_s")


def _by_head_size(section: Section, way: str, base: Mapping[int, float] | None) -> Mapping[int, float]:
    """``{head_64: 0.5, head_128: 0.6}``."""
    if base is not None and way not in section:
        return base
    given = section.section(way, tuple(HEAD_SIZES))
    if not given.data:
        section.error(way, f"expected parts of the peak by head size; allowed: {', '.join(HEAD_SIZES)}")
    return {HEAD_SIZES[key]: given.number(key) for key in given.data}
