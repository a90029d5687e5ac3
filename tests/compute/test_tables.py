"""Measured kernels of a CSV, and experiments that take them."""

import pytest

from clustersim.compute.durations import Analytic, Measured, total_s
from clustersim.compute.kernels import Attention, Matmul, Pass
from clustersim.compute.tables import read_kernels, read_table
from clustersim.errors import InputError
from clustersim.simulation import simulate
from tests.compute.toy import calibration
from tests.helpers import parsed


def write(tmp_path, text):
    path = tmp_path / "measured.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_products_of_a_precision(tmp_path):
    """Twice measured: the mean. Without batch: one. Without precision: any."""
    path = write(tmp_path, "rows,columns,inner,batch,precision,time_us\n8,8,8,,bf16,10\n8,8,8,1,bf16,20\n8,8,8,1,fp16,70\n4,4,4,2,,5\n")
    assert read_table(path, "bf16") == {Matmul(8, 8, 8): pytest.approx(15e-6), Matmul(4, 4, 4, 2): pytest.approx(5e-6)}


def test_the_mark_that_spreadsheets_begin_a_file_with(tmp_path):
    path = write(tmp_path, "\ufeffrows,columns,inner,time_us\r\n8,8,8,1\r\n")
    assert list(read_table(path, "bf16")) == [Matmul(8, 8, 8)]


def test_kernels_of_all_kinds(tmp_path):
    path = write(
        tmp_path,
        "kind,rows,columns,inner,queries,keys,heads,head_size,part,backward,moved_bytes,kernels,time_us\n"
        ",8,8,8,,,,,,,,,1\nattention,,,,64,128,4,32,0.5,true,,,2\npass,,,,,,,,,,1e6,3,4\n",
    )
    assert [(row.kernel, row.time_s, row.place[-2:]) for row in read_kernels(path)] == [
        (Matmul(8, 8, 8), pytest.approx(1e-6), ":2"),
        (Attention(64, 128, 4, 32, 32, 0.5, True), pytest.approx(2e-6), ":3"),
        (Pass(1e6, 3), pytest.approx(4e-6), ":4"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows,columns,inner\n8,8,8\n", ":1: no column time_us; allowed: kind, rows"),
        ("rows,columns,inner,time_us,colour\n8,8,8,1,red\n", ":1: unknown column 'colour'; did you mean 'columns'?"),
        ("rows,rows,time_us\n8,8,1\n", ":1: the column 'rows' stands twice"),
        ("rows,columns,inner,time_us\n8,8,0,1\n", ":2: inner: expected a number from 1 to 1e+09, got '0'"),
        ("rows,columns,inner,time_us\n8,8,8,nan\n", ":2: time_us: expected a number from 1e-09 to 1e+09, got 'nan'"),
        ("rows,columns,inner,time_us\n8,8,8,1e-310\n", ":2: time_us: expected a number from 1e-09 to 1e+09, got '1e-310'"),
        ("rows,columns,inner,time_us\n8,8,8.5,1\n", ":2: inner: expected a whole number, got '8.5'"),
        ("rows,columns,inner,time_us\n8,8,8\n", ":2: 3 fields; allowed: 4"),
        ("rows,columns,inner,time_us\n", ": no rows; expected"),
        ("", ": no rows; expected"),
        ("kind,rows,columns,inner,time_us\nconv,8,8,8,1\n", ":2: kind: unknown value 'conv'; allowed: matmul, attention, pass"),
        ("kind,rows,moved_bytes,time_us\npass,8,8,1\n", ":2: rows: a pass has none; allowed: moved_bytes, kernels"),
        ("rows,columns,inner,precision,time_us\n8,8,8,bf15,1\n", ":2: precision: unknown value 'bf15'; did you mean 'bf16'?"),
        ("rows,columns,inner,precision,time_us\n8,8,8,fp16,1\n", ": no row of bf16; allowed"),
    ],
)
def test_what_is_refused(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_table(path, "bf16")
    assert str(error.value).startswith(f"{path}{said}")


def test_what_the_table_does_not_have_is_computed():
    other = Matmul(2560, 128, 8192)
    durations = Measured({Matmul(8, 16, 4): 1e-3, Pass(100.0, 1): 2e-3}, Analytic(calibration(), "bf16"))
    assert durations.duration(Matmul(8, 16, 4)) == durations.duration(Matmul(16, 8, 4)) == 1e-3  # the transposed product too
    assert durations.duration(other) == pytest.approx(2 * 2560 * 128 * 8192 / 100e12)
    assert total_s(durations, [Matmul(8, 16, 4), Pass(100.0, 1), other]) == pytest.approx(3e-3 + 2 * 2560 * 128 * 8192 / 100e12)


EXPERIMENT = """
model: {{layers: 2, hidden: 512, heads: 8}}
cluster: dgx-a100
strategy: standard
batch: {{global: 1, sequence: 128}}
cost: {{{cost}}}
"""


def test_an_experiment_takes_the_table(tmp_path):
    path = write(tmp_path, "rows,columns,inner,time_us\n128,2048,512,77\n")
    experiment = parsed(EXPERIMENT.format(cost=f"table: {path}"))
    assert experiment.durations.duration(Matmul(128, 2048, 512)) == pytest.approx(77e-6)
    analytic = Analytic(experiment.calibration, "bf16")
    assert experiment.durations.duration(Matmul(128, 512, 2048)) == analytic.duration(Matmul(128, 512, 2048))


def test_a_table_and_a_trace_exclude_one_another(tmp_path):
    path = write(tmp_path, "rows,columns,inner,time_us\n128,2048,512,77\n")
    with pytest.raises(InputError, match=r"cost.trace: excludes table; allowed: one of them"):
        parsed(EXPERIMENT.format(cost=f"table: {path}, trace: {path}"))
    with pytest.raises(InputError, match=r"cost.table: no such file: nowhere.csv"):
        parsed(EXPERIMENT.format(cost="table: nowhere.csv"))


def test_a_table_without_a_kernel_of_the_job_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("rows,columns,inner,time_us\n7,7,7,1\n")
    with pytest.raises(InputError, match=r"cost: none of the 1 measured kernels is one of this job, whose products are of"):
        simulate(parsed(EXPERIMENT.format(cost=f"table: {path}")))
