"""What an event of a profiler trace is: by its category and its NCCL arguments first, by its name second.

Kinds of an imported trace: ``kernel`` (compute), ``copy``, and the kinds of :data:`TRANSFERS`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

KERNEL, COPY = "kernel", "copy"
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
TRANSFERS = (*COLLECTIVES, "send", "recv", "communication")
IMPORTED_KINDS = (KERNEL, COPY, *TRANSFERS)

#: Categories of what occupies a GPU; the capital ones are PyTorch 1.8's. ``cuda_sync``, annotations and Triton's cpu_op do not.
DEVICE = {
    "kernel": KERNEL, "Kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": COPY, "Memcpy": COPY, "Memset": COPY,
}  # fmt: skip

# Libraries whose kernels communicate, by what their names contain.
_LIBRARY = re.compile(
    r"nccl|rccl|hccl|oneccl|deep_?ep|mscclpp|msccl|nvshmem|rocshmem|cross_device_reduce|(?:one|two)_shot_all_reduce|multimem_all", re.I
)
# Words of collectives: a kernel that has them and is of no known library is compute, and reported. Inductor's kernels name the ops
# they were fused from and never communicate.
_WORDS = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", re.I)
_FUSED = re.compile(r"triton_", re.I)
_OPERATION = (
    ("all_reduce", re.compile(r"all_?_?reduce|cross_device_reduce", re.I)),
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.I)),
    ("all_gather", re.compile(r"all_?gather", re.I)),
    ("all_to_all", re.compile(r"all_?to_?all|deep_?ep.*(?:dispatch|combine)", re.I)),
    ("broadcast", re.compile(r"broadcast", re.I)),
    ("send", re.compile(r"(?:^|[^a-z])i?send(?![a-z]|_?recv)", re.I)),
    ("recv", re.compile(r"(?<!send)(?<!send_)(?:^|[^a-z])i?recv", re.I)),
)  # fmt: skip

_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "int8": 1, "uint8": 1, "short": 2, "int16": 2, "half": 2, "float16": 2, "bfloat16": 2, "int": 4,
    "int32": 4, "float": 4, "float32": 4, "long": 8, "int64": 8, "double": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip


class Arguments(NamedTuple):
    """The NCCL arguments of a kernel, as the profiler wrote them; None where it did not."""

    collective: Any = None
    sent: Any = None
    received: Any = None
    dtype: Any = None
    size: Any = None
    group: Any = None
    description: Any = None
    ranks: Any = None
    source: Any = None
    target: Any = None


def operation(text: str) -> str:
    """The kind of transfer that a collective's or kernel's name speaks of.

    >>> [operation(one) for one in ("allreduce", "_reduce_scatter_base", "_allgather_base", "all_to_allv", "coalesced")]
    ['all_reduce', 'reduce_scatter', 'all_gather', 'all_to_all', 'communication']
    >>> [operation(one) for one in ("ncclDevKernel_SendRecv(x)", "send", "nccl:recv 0<-1", "ncclDevKernel_Broadcast_RING_LL")]
    ['communication', 'send', 'recv', 'broadcast']
    """
    return next((kind for kind, pattern in _OPERATION if pattern.search(text)), "communication")


def kind(category: str, name: str, arguments: Arguments | None = None) -> str:
    """The kind of a device event.

    >>> kind("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), kind("kernel", "gemm"), kind("gpu_memset", "Memset (Device)")
    ('all_reduce', 'kernel', 'copy')
    >>> kind("kernel", "ncclDevKernel_SendRecv(x)", Arguments(collective="all_to_allv")), kind("kernel", "deep_ep::intranode::combine<8>")
    ('all_to_all', 'all_to_all')
    """
    coarse = DEVICE[category]
    if coarse == COPY:
        return COPY
    if arguments is not None and arguments.collective:
        named = operation(str(arguments.collective))
        return named if named != "communication" else operation(name)
    return operation(name) if _LIBRARY.search(name) else KERNEL


def unclassified(name: str) -> bool:
    """Whether a compute kernel's name speaks of a collective, and of no library known to communicate.

    >>> unclassified("allreduce_fusion_kernel<8>"), unclassified("triton_poi_fused_all_gather_0"), unclassified("gemm")
    (True, False, False)
    """
    return bool(_WORDS.search(name)) and not _FUSED.search(name) and not _LIBRARY.search(name)


_TOO_MANY = 1 << 50  # elements of no tensor: the figure is taken for none


def payload_bytes(kind: str, arguments: Arguments) -> int:
    """The size of a transfer as NCCL's tests count it, 0 where the arguments do not give it.

    The larger of what a rank puts in and takes out: the whole tensor of an all-gather (out) and of a reduce-scatter (in).

    >>> payload_bytes("all_gather", Arguments(sent=10, received=80, dtype="BFloat16")), payload_bytes("send", Arguments())
    (160, 0)
    """
    width = _BYTES.get(str(arguments.dtype).lower(), 0)
    counts = [one for one in (arguments.sent, arguments.received) if isinstance(one, int) and 0 < one < _TOO_MANY]
    if kind in ("send", "recv", "broadcast", "all_reduce"):
        counts = counts[:1]
    return max(counts, default=0) * width


def group_size(arguments: Arguments) -> int:
    """Ranks of the process group, 0 where unknown."""
    return arguments.size if isinstance(arguments.size, int) and not isinstance(arguments.size, bool) and arguments.size > 0 else 0


def group_ranks(arguments: Arguments) -> tuple[int, ...]:
    """The ranks, in order; empty where they are not given or were cut short.

    >>> group_ranks(Arguments(ranks="[0, 2]")), group_ranks(Arguments(ranks="[0, 1, ...]"))
    ((0, 2), ())
    """
    if isinstance(arguments.ranks, list) and all(isinstance(one, int) for one in arguments.ranks):
        return tuple(arguments.ranks)
    text = arguments.ranks if isinstance(arguments.ranks, str) else ""
    return tuple(map(int, re.findall(r"[0-9]+", text))) if re.fullmatch(r"\[\s*[0-9]{1,9}(?:\s*,\s*[0-9]{1,9})*\s*\]", text) else ()


def group_label(arguments: Arguments) -> str:
    """Name, description and size of a group, as the ``group`` column has it; "" where the arguments give no group.

    >>> group_label(Arguments(group="0", description="default_pg", size=8, ranks="[0, 1]"))
    '0 default_pg, 8 ranks [0, 1]'
    """
    named = " ".join(str(one) for one in (arguments.group, arguments.description) if one not in (None, "", "undefined"))
    size = group_size(arguments)
    ranks = f" {arguments.ranks}" if arguments.ranks not in (None, "", "[]", []) else ""
    return ", ".join(part for part in (named, f"{size} ranks{ranks}" if size else "") if part)


def label_size(label: str) -> int:
    """The size that :func:`group_label` wrote, 0 where it wrote none.

    >>> label_size("0 default_pg, 8 ranks [0, 1]"), label_size("")
    (8, 0)
    """
    found = re.search(r"(?:^|, )([0-9]+) ranks", label)
    return int(found.group(1)) if found else 0
