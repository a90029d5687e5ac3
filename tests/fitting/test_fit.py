"""The fit finds the figures that times were made with, and says what the rows do not determine. Times are computed here, by hand."""

import pytest

from clustersim.compute.calibration import load_calibration
from clustersim.errors import InputError
from clustersim.fitting.fit import fit
from clustersim.fitting.parameters import parameters, put
from clustersim.fitting.rows import read_rows

PEAK, BANDWIDTH = 312e12, 2039e9  # A100-SXM4-80GB
ROWS, COLUMNS = 108 * 256, 4 * 128
"""Full waves of tiles of 256 x 128 on its 108 multiprocessors, and far above what memory limits."""
INNER = (512, 1024, 2048, 4096, 8192)


def full_us(inner, columns=COLUMNS, efficiency=0.7, ramp=100, overhead_us=30.0):
    return 2 * ROWS * columns * inner / (PEAK * efficiency) * (inner + ramp) / inner * 1e6 + overhead_us


def products(*rows):
    """Of inner size, time in us, and columns where they are not the usual ones."""
    lines = (f"{ROWS},{columns[0] if columns else COLUMNS},{inner},{time_us!r}\n" for inner, time_us, *columns in rows)
    return "rows,columns,inner,time_us\n" + "".join(lines)


def fitted(tmp_path, text, names, gpu="A100-SXM4-80GB"):
    path = tmp_path / "measured.csv"
    path.write_text(text, encoding="utf-8")
    return fit(read_rows(path, gpu, "megatron-2022", None), load_calibration(gpu, "megatron-2022"), parameters(names.split(",")))


def test_the_figures_of_products(tmp_path):
    rows = [(inner, full_us(inner, columns), columns) for inner in INNER for columns in (COLUMNS, 2 * COLUMNS)]
    done = fitted(tmp_path, products(*rows), "matmul_efficiency,ramp,overhead")
    assert done.values == pytest.approx({"matmul_efficiency": 0.7, "ramp": 100, "overhead": 30e-6}, rel=5e-3)
    assert done.mape < 1e-3 and done.warnings == ()
    assert done.calibration.matmul_efficiency == done.values["matmul_efficiency"]


def test_errors_are_predicted_over_measured(tmp_path):
    """Two equal products, the second 21 % longer: between them lies 1.1 times the first, 10 % above and 1/11 below."""
    done = fitted(tmp_path, products((8192, 2000.0), (8192, 2000.0 * 1.21)), "matmul_efficiency")
    assert done.errors == pytest.approx((0.1, -1 / 11), abs=1e-3)
    assert done.mape == pytest.approx((0.1 + 1 / 11) / 2, abs=1e-3) and done.max_ape == pytest.approx(0.1, abs=1e-3)


def test_the_bandwidth_of_passes(tmp_path):
    """60 % of the bandwidth and 4 us a kernel."""
    passes = ((1e8, 1), (1e9, 2), (5e7, 3))
    rows = "".join(f"pass,{moved},{kernels},{moved / (BANDWIDTH * 0.6) * 1e6 + 4 * kernels}\n" for moved, kernels in passes)
    done = fitted(tmp_path, f"kind,moved_bytes,kernels,time_us\n{rows}", "memory_efficiency,overhead")
    assert done.values == pytest.approx({"memory_efficiency": 0.6, "overhead": 4e-6}, rel=5e-3)


def test_attention_by_head_size(tmp_path):
    """A million tokens, half of the square: 4 and 10 FLOP a pair and element of a head; 60 % forward and 45 % backward of the peak."""
    pairs = 0.5 * 1e12 * 128
    rows = f"attention,1000000,1000000,1,128,0.5,false,{4 * pairs / (PEAK * 0.6) * 1e6}\n"
    rows += f"attention,1000000,1000000,1,128,0.5,true,{10 * pairs / (PEAK * 0.45) * 1e6}\n"
    columns = "kind,queries,keys,heads,head_size,part,backward,time_us"
    done = fitted(tmp_path, f"{columns}\n{rows}", "attention.forward.head_128,attention.backward.head_128")
    assert list(done.values.values()) == pytest.approx([0.6, 0.45], rel=1e-3)
    shipped = load_calibration("A100-SXM4-80GB", "megatron-2022")
    assert done.calibration.attention_forward[64] == shipped.attention_forward[64]


def test_eight_bits_keep_their_ratio_to_sixteen():
    start = load_calibration("A100-SXM4-80GB", "megatron-2022")
    half = put(start, {"matmul_efficiency": start.matmul_efficiency / 2})
    assert half.fp8_efficiency == pytest.approx(start.fp8_efficiency / 2)
    assert put(start, {"matmul_efficiency": 0.5, "fp8_efficiency": 0.25}).fp8_efficiency == 0.25


def test_never_more_figures_than_rows(tmp_path):
    with pytest.raises(InputError, match="--fit: 2 figures cannot be fitted to 1 row; allowed: at most as many figures as rows"):
        fitted(tmp_path, products((8192, 2000.0)), "matmul_efficiency,ramp")


def test_a_figure_that_nothing_depends_on(tmp_path):
    done = fitted(tmp_path, products((4096, 800.0), (8192, 1600.0)), "matmul_efficiency,memory_efficiency")
    (warning,) = done.warnings
    assert warning.startswith("memory_efficiency is not determined by these rows: 1 % of it moves them by less than 0.01 %")


def test_figures_that_make_up_for_each_other(tmp_path):
    done = fitted(tmp_path, products((512, full_us(512)), (512, full_us(512))), "matmul_efficiency,ramp")
    assert len(done.warnings) == 2 and all("once the other fitted figures make up for it" in warning for warning in done.warnings)


def test_a_figure_at_its_bound(tmp_path):
    """Twice as fast as the peak."""
    done = fitted(tmp_path, products((8192, 2 * ROWS * COLUMNS * 8192 / (2 * PEAK) * 1e6)), "matmul_efficiency")
    assert done.values == {"matmul_efficiency": 1.0}
    assert done.warnings == ("matmul_efficiency is at the end of its range, 1: the rows ask for a value beyond it",)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("matmul_eficiency", "--fit: unknown figure 'matmul_eficiency'; did you mean 'matmul_efficiency'?; allowed: matmul_efficiency, "),
        ("ramp,ramp", "--fit: ramp stands twice"),
        ("attention.forward.head_100", "--fit: unknown figure"),
    ],
)
def test_what_cannot_be_fitted(names, said):
    with pytest.raises(InputError) as error:
        parameters(names.split(","))
    assert str(error.value).startswith(said)
