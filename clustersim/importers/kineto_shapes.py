"""Matrix products of a PyTorch profiler trace that recorded shapes, and what their kernels took.

The profiler writes the sizes of an operator's inputs (``Input Dims``) with ``record_shapes=True``. A GPU kernel belongs to the
innermost matrix product that was under way, on the thread that launched it, when it was launched: the launch and the kernel have one
``correlation``. Where the file does not hold the launch, the ``External id`` of the kernel is that of its operator.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clustersim.compute.kernels import Kernel, Matmul
from clustersim.errors import InputError
from clustersim.importers.kineto_events import NO_TIME, nanoseconds
from clustersim.importers.kineto_kinds import DEVICE, KERNEL
from clustersim.importers.kineto_text import NO_JSON, Header, lenient, pieces

_PRECISIONS = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32"}
_NESTED = 8  # products under way on one thread at a time
_RECORD = "; record the trace with torch.profiler.profile(..., record_shapes=True)"


class _Args(msgspec.Struct, gc=False):
    correlation: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    sizes: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Any = None


class _Product(NamedTuple):
    """An operator on the host: its time there, the product it computes, the precision of its factors."""

    start_ns: int
    end_ns: int
    product: Matmul
    precision: str


def read_trace_products(path: Path, precision: str) -> dict[Kernel, float]:
    """Seconds by product in one precision: the kernels of an operator together, the mean over operators of one shape.

    InputError for what is no profiler trace, one without recorded shapes, and one without kernels of such a product.
    """
    threads, kernels, launches, shapes, of_id = _read(path)
    if not shapes:
        raise InputError(f"{path}: no operator has the sizes of its inputs (Input Dims){_RECORD}")
    starts = {thread: [product.start_ns for product in products] for thread, products in threads.items()}
    spent_ns: dict[tuple[Any, int], int] = defaultdict(int)
    for correlation, external, span_ns in kernels:
        where = _launched_in(threads, starts, launches[correlation]) if correlation in launches else of_id.get(external)
        if where is not None:
            spent_ns[where] += span_ns
    seen: dict[Matmul, list[int]] = defaultdict(list)
    for (thread, place), time_ns in spent_ns.items():
        product = threads[thread][place]
        if product.precision == precision and time_ns:
            seen[product.product].append(time_ns)
    if not seen:
        found = sorted({threads[thread][place].precision for thread, place in spent_ns} - {precision})
        others = f"; it has products of {', '.join(found)}" if found else ""
        raise InputError(f"{path}: no matrix product of {precision} with GPU kernels{others}; allowed: at least one")
    return {product: sum(times) / len(times) * 1e-9 for product, times in seen.items()}


Place = tuple[Any, int]
"""A thread, and the number of the product on it."""
_Read = tuple[dict[Any, list[_Product]], list[tuple[Any, Any, int]], dict[int, tuple[Any, int]], bool, dict[Any, Place]]


def _read(path: Path) -> _Read:
    """Products by thread in order of their start, kernels (correlation, External id, ns), launches by correlation, whether any operator
    has sizes, and the products by External id.
    """
    found: dict[Any, list[tuple[_Product, Any]]] = defaultdict(list)
    kernels: list[tuple[Any, Any, int]] = []
    launches: dict[int, tuple[Any, int]] = {}
    shapes = False
    for events in pieces(path, _decode, Header()):
        for event in events:
            if event.ph != "X" or not isinstance(event.cat, str) or not isinstance(event.name, str):
                continue
            args = _args(event.args)
            thread = (str(event.pid), str(event.tid))
            start_ns, span_ns = nanoseconds([event.ts, event.dur]).tolist()
            if start_ns == NO_TIME or span_ns == NO_TIME or span_ns < 0:
                continue
            if DEVICE.get(event.cat) == KERNEL:
                kernels.append((args.correlation, args.external, span_ns))
            elif args.sizes:
                shapes = True
                product = _product(event.name, args)
                if product:
                    found[thread].append((_Product(start_ns, start_ns + span_ns, *product), args.external))
            elif args.correlation is not None:
                launches[args.correlation] = (thread, start_ns)
    for products in found.values():
        products.sort(key=lambda pair: (pair[0].start_ns, -pair[0].end_ns))
    places = [(external, (thread, place)) for thread, products in found.items() for place, (_, external) in enumerate(products)]
    of_id = {external: where for external, where in places if external is not None}
    return {thread: [product for product, _ in products] for thread, products in found.items()}, kernels, launches, shapes, of_id


def _launched_in(threads: Mapping[Any, list[_Product]], starts: Mapping[Any, list[int]], launch: tuple[Any, int]) -> Place | None:
    """The innermost product around a launch on its thread."""
    thread, at_ns = launch
    last = bisect_right(starts.get(thread, ()), at_ns)
    for place in range(last - 1, max(last - 1 - _NESTED, -1), -1):
        if threads[thread][place].end_ns >= at_ns:
            return thread, place
    return None


def _matrices(sizes: list[Any], left: int, right: int, batched: bool = False) -> Matmul | None:
    """``sizes[left]`` by ``sizes[right]``, both with a batch before where ``batched``."""
    a, b = sizes[left], sizes[right]
    lengths = 3 if batched else 2
    if len(a) != lengths or len(b) != lengths or a[-1] != b[-2] or (batched and a[0] != b[0]):
        return None
    return Matmul(a[-2], b[-1], a[-1], a[0] if batched else 1)


def _linear(sizes: list[Any]) -> Matmul | None:
    """Rows of any number of dimensions by the transposed weight."""
    rows, weight = sizes[0], sizes[1]
    if len(weight) != 2 or not all(type(size) is int for size in rows) or rows[-1] != weight[1]:
        return None
    return Matmul(math.prod(rows[:-1]), weight[0], weight[1])


_SHAPES: dict[str, tuple[int, Callable[[list[Any]], Matmul | None]]] = {
    "aten::mm": (0, lambda sizes: _matrices(sizes, 0, 1)),
    "aten::addmm": (1, lambda sizes: _matrices(sizes, 1, 2)),
    "aten::bmm": (0, lambda sizes: _matrices(sizes, 0, 1, batched=True)),
    "aten::baddbmm": (1, lambda sizes: _matrices(sizes, 1, 2, batched=True)),
    "aten::linear": (0, _linear),
}
"""By operator: the place of the left factor among the inputs, and the product."""


def _product(name: str, args: _Args) -> tuple[Matmul, str] | None:
    """The product and the precision of an operator; None for other operators, other types and sizes that do not multiply."""
    if name not in _SHAPES:
        return None
    left, shape = _SHAPES[name]
    try:
        product, precision = shape(args.sizes), _PRECISIONS.get(args.types[left])
    except (IndexError, TypeError, KeyError):
        return None
    if product is None or precision is None or not all(type(size) is int and size > 0 for size in product):
        return None
    return product, precision


_DECODE = msgspec.json.Decoder(list[_Event])


def _decode(text: bytes) -> list[_Event]:
    try:
        return _DECODE.decode(text)
    except NO_JSON:
        return [msgspec.convert(one, _Event) for one in lenient(text) if isinstance(one, dict)]


def _args(value: Any) -> _Args:
    args = msgspec.convert(value, _Args) if isinstance(value, dict) else _Args()
    args.correlation, args.external = (number if type(number) is int else None for number in (args.correlation, args.external))
    return args
