"""How long a GPU takes for a kernel: a roofline whose roof depends on the shape.

A product of m x k by k x n is cut into tiles, one for each multiprocessor at a time. It runs at

    peak x efficiency x filled x k / (k + ramp),    filled = m n / (waves x multiprocessors x area of a tile),

``waves`` being the tiles over the multiprocessors, rounded up: what hangs over the matrix and what is idle in the last wave is lost
(tile and wave quantization; NVIDIA, Matrix Multiplication Background User's Guide). Of the tiles in ``TILES`` the one that makes the
product fastest counts. Where the rows of a matrix are not multiples of 16 bytes the tensor cores are fed more slowly, or not at all
(same guide, tensor core requirements); 32 bits do without them.
A product is never faster than its matrices come from memory.

>>> from clustersim.compute.kernels import Matmul
>>> from clustersim.compute.calibration import load_calibration
>>> a100 = load_calibration("A100-SXM4-80GB", "megatron-2022")
>>> large, small = (kernel_s(Matmul(8192, 8192, k), a100, "bf16") for k in (8192, 64))
>>> 0.6 < 2 * 8192**3 / large / 312e12 < 0.9, small / large > 64 / 8192
(True, True)
"""

from __future__ import annotations

from clustersim.compute.calibration import Calibration
from clustersim.compute.kernels import Attention, Kernel, Matmul, Pass, Stall

TILES = ((256, 128, 1.0), (128, 128, 0.95), (128, 64, 0.77), (64, 64, 0.6), (32, 64, 0.35))
"""Rows, columns, and the speed against the first, a fit to the products in gpus/H100-SXM5-80GB/matmul.csv; smaller tiles read each
element more often."""
ALIGNED_BYTES = 16
_WITHOUT_TENSOR_CORES = ("fp32",)
_ATTENTION_RAMP = 100
"""Tokens: attention of s queries reaches s/(s + ramp) of its speed (FlashAttention-3, arXiv 2407.08608, figure 5: 309, 350, 362 TFLOP/s
at 512, 1024, 2048 on the way to 370)."""
_CAST_BYTES = 2 + 2 + 1
ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def kernel_s(kernel: Kernel, calibration: Calibration, precision: str) -> float:
    """Seconds of one kernel, and what is lost before the next; no less than the host needs to launch it.

    In 8 bits both factors of a product are read to find their scale, and read and written to be cast (delayed scaling reads them once
    less).
    """
    if isinstance(kernel, Stall):
        return kernel.seconds
    memory_s = calibration.gpu.memory_bandwidth_bytes_s * calibration.memory_efficiency
    if isinstance(kernel, Pass):
        return max(kernel.moved_bytes / memory_s + kernel.kernels * calibration.overhead_s, kernel.kernels * calibration.launch_s)
    if isinstance(kernel, Attention):
        peak = calibration.gpu.peak_flop_s[sixteen_bits(precision)]
        reached = calibration.attention(kernel.head_size, kernel.backward) * kernel.queries / (kernel.queries + _ATTENTION_RAMP)
        return max(kernel.flops / (peak * reached) + calibration.overhead_s, calibration.launch_s)
    size = ELEMENT_BYTES[precision]
    moved = kernel.batch * (kernel.rows * kernel.inner + kernel.inner * kernel.columns + kernel.rows * kernel.columns) * size
    busy_s = max(kernel.flops / matmul_flop_s(kernel, calibration, precision), moved / memory_s)
    if precision == "fp8":
        factors = kernel.batch * (kernel.rows * kernel.inner + kernel.inner * kernel.columns)
        busy_s += factors * _CAST_BYTES / memory_s
    return max(busy_s + calibration.overhead_s, calibration.launch_s)


def matmul_flop_s(kernel: Matmul, calibration: Calibration, precision: str) -> float:
    """FLOP/s of a product that memory does not limit."""
    gpu = calibration.gpu
    multiprocessors = gpu.multiprocessors
    assert multiprocessors is not None  # a calibration is not read without
    size = ELEMENT_BYTES[precision]
    aligned = precision in _WITHOUT_TENSOR_CORES or all(count * size % ALIGNED_BYTES == 0 for count in (kernel.inner, kernel.columns))
    filled = max(speed * _filled(kernel, rows, columns, multiprocessors) for rows, columns, speed in TILES)
    ramp = kernel.inner / (kernel.inner + calibration.ramp)
    efficiency = calibration.fp8_efficiency if precision == "fp8" else calibration.matmul_efficiency
    return gpu.peak_flop_s[precision] * efficiency * filled * ramp * (1.0 if aligned else calibration.unaligned)


def _filled(kernel: Matmul, rows: int, columns: int, multiprocessors: int) -> float:
    tiles = kernel.batch * -(-kernel.rows // rows) * -(-kernel.columns // columns)
    waves = -(-tiles // multiprocessors)
    return kernel.batch * kernel.rows * kernel.columns / (waves * multiprocessors * rows * columns)


def sixteen_bits(precision: str) -> str:
    """What attention and logits have where the matrices of the layers have 8 bits."""
    return "bf16" if precision == "fp8" else precision
