"""Matrix products of profiler traces: a trace written by hand, in the form in which PyTorch 2 writes it."""

import json
from pathlib import Path

import pytest

from clustersim.compute.kernels import Matmul
from clustersim.errors import InputError
from clustersim.importers.kineto_shapes import read_trace_products
from tests.helpers import parsed

BF16 = "c10::BFloat16"
REAL = Path(__file__).parents[1] / "data" / "kineto" / "hta_tracediff_test" / "rank1.pt.trace.json.gz"


def operator(name, start, span, external, dims, types=None, tid=11):
    types = [BF16] * len(dims) if types is None else types
    args = {
        "External id": external, "Record function id": 0, "Concrete Inputs": [""] * len(dims), "Input type": types, "Input Dims": dims,
    }  # fmt: skip
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 11, "tid": tid, "ts": start, "dur": span, "args": args}


def launch(start, correlation, tid=11):
    args = {"External id": 0, "cbid": 211, "correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 11, "tid": tid, "ts": start, "dur": 2, "args": args}


def kernel(start, span, correlation, external=0, name="ampere_bf16_s16816gemm"):
    args = {"External id": external, "device": 0, "context": 1, "stream": 7, "correlation": correlation, "grid": [1, 1, 1]}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": span, "args": args}


def read(tmp_path, *events, precision="bf16"):
    path = tmp_path / "rank0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": list(events)}), encoding="utf-8")
    return read_trace_products(path, precision)


def seconds(us):
    return pytest.approx(us * 1e-6)


@pytest.mark.parametrize(
    ("name", "dims", "product"),
    [
        ("aten::mm", [[16, 32], [32, 64]], Matmul(16, 64, 32)),
        ("aten::addmm", [[64], [16, 32], [32, 64], [], []], Matmul(16, 64, 32)),
        ("aten::bmm", [[8, 16, 32], [8, 32, 64]], Matmul(16, 64, 32, 8)),
        ("aten::baddbmm", [[8, 16, 64], [8, 16, 32], [8, 32, 64], [], []], Matmul(16, 64, 32, 8)),
        ("aten::linear", [[2, 16, 32], [64, 32], [64]], Matmul(32, 64, 32)),
    ],
)
def test_sizes_of_each_operator(tmp_path, name, dims, product):
    types = [BF16] * 3 + ["Scalar"] * (len(dims) - 3) if len(dims) > 2 else [BF16] * 2
    assert read(tmp_path, operator(name, 10, 20, 1, dims, types), launch(15, 3), kernel(100, 40, 3)) == {product: seconds(40)}


def test_kernels_of_one_product_add_up_and_repetitions_are_averaged(tmp_path):
    """40 + 10 us (a sum of parts after the product) and 30 us."""
    mm = [[16, 32], [32, 64]]
    found = read(
        tmp_path, operator("aten::mm", 10, 20, 1, mm), launch(12, 1), launch(20, 2), operator("aten::mm", 50, 20, 2, mm), launch(55, 3),
        kernel(100, 40, 1), kernel(140, 10, 2, name="splitKreduce_kernel"), kernel(150, 30, 3),
    )  # fmt: skip
    assert found == {Matmul(16, 64, 32): seconds(40)}


def test_the_innermost_product_counts(tmp_path):
    """A linear of three dimensions calls addmm of two; what it launches beside that is not a product."""
    found = read(
        tmp_path, operator("aten::linear", 10, 50, 1, [[2, 8, 32], [64, 32], [64]]),
        operator("aten::addmm", 20, 20, 2, [[64], [16, 32], [32, 64], [], []], [BF16, BF16, BF16, "Scalar", "Scalar"]),
        launch(25, 1), kernel(100, 40, 1),
    )  # fmt: skip
    assert found == {Matmul(16, 64, 32): seconds(40)}


def test_other_threads_other_operators_and_other_kernels_do_not_count(tmp_path):
    mm = [[16, 32], [32, 64]]
    found = read(
        tmp_path, operator("aten::mm", 10, 20, 1, mm), launch(15, 1), kernel(100, 40, 1),
        launch(16, 2, tid=12), kernel(140, 1000, 2),  # launched by another thread
        operator("aten::add", 40, 5, 3, [[16, 64], [16, 64]]), launch(42, 3), kernel(1200, 1000, 3),
        launch(60, 4), kernel(2300, 1000, 4),  # after the operator
    )  # fmt: skip
    assert found == {Matmul(16, 64, 32): seconds(40)}


def test_without_the_launch_the_external_id_tells(tmp_path):
    found = read(tmp_path, operator("aten::mm", 10, 20, 5, [[16, 32], [32, 64]]), kernel(100, 40, 1, external=5))
    assert found == {Matmul(16, 64, 32): seconds(40)}


def test_products_of_the_precision_alone(tmp_path):
    events = [
        operator("aten::mm", 10, 20, 1, [[16, 32], [32, 64]]), launch(15, 1), kernel(100, 40, 1),
        operator("aten::mm", 50, 20, 2, [[8, 8], [8, 8]], ["c10::Half"] * 2), launch(55, 2), kernel(200, 30, 2),
        operator("aten::mm", 90, 20, 3, [[4, 4], [4, 4]], ["float"] * 2), launch(95, 3), kernel(300, 20, 3),
    ]  # fmt: skip
    found = {precision: read(tmp_path, *events, precision=precision) for precision in ("bf16", "fp16", "fp32")}
    assert found == {
        "bf16": {Matmul(16, 64, 32): seconds(40)}, "fp16": {Matmul(8, 8, 8): seconds(30)}, "fp32": {Matmul(4, 4, 4): seconds(20)},
    }  # fmt: skip


RUN = launch(15, 1), kernel(100, 40, 1)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([operator("aten::mm", 10, 20, 1, []), *RUN], "record the trace with torch.profiler.profile(..., record_shapes=True)"),
        ([operator("aten::mm", 10, 20, 1, [[8, 8], [8, 8]])], "no matrix product of bf16 with GPU kernels; allowed"),
        ([operator("aten::mm", 10, 20, 1, [[8, 8], [8, 8]], ["float", "float"]), *RUN], "it has products of fp32"),
        ([operator("aten::mm", 10, 20, 1, [[8, "x"], "y"]), launch(15, [1]), kernel(100, 40, {})], "no matrix product of bf16"),
    ],
)
def test_what_is_refused(tmp_path, events, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, *events)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_real_trace():
    """A recommendation model of 2022 on A100 in 32 bits: 1024 rows, layers 1705 to 1024 to 512; below the 19.5 TFLOP/s of the GPU."""
    found = read_trace_products(REAL, "fp32")
    forward = found[Matmul(1024, 512, 1705)], found[Matmul(1024, 1024, 1705)]
    assert forward[0] < forward[1]
    assert all(product.flops / time_s < 19.5e12 for product, time_s in found.items())


def test_an_experiment_takes_the_trace(tmp_path):
    path = tmp_path / "rank0.pt.trace.json"
    events = [operator("aten::mm", 10, 20, 1, [[128, 512], [512, 2048]]), launch(15, 1), kernel(100, 40, 1)]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    experiment = parsed(
        "model: {layers: 2, hidden: 512, heads: 8}\ncluster: dgx-a100\nstrategy: standard\n"
        f"batch: {{global: 1, sequence: 128}}\ncost: {{trace: {path}}}"
    )
    assert experiment.durations.duration(Matmul(128, 2048, 512)) == seconds(40)
