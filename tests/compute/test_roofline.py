"""Times of kernels on a GPU of 100 TFLOP/s, 10 multiprocessors and 1 TB/s, by hand."""

import pytest

from clustersim.compute.kernels import Attention, Matmul, Pass
from clustersim.compute.roofline import kernel_s
from tests.compute.toy import calibration

FULL = Matmul(2560, 128, 8192)  # ten tiles of 256 x 128, one for each multiprocessor


def test_a_product_that_fills_the_gpu_runs_at_the_peak():
    assert kernel_s(FULL, calibration(), "bf16") == pytest.approx(2 * 2560 * 128 * 8192 / 100e12)
    assert kernel_s(FULL, calibration(), "fp32") == pytest.approx(2 * 2560 * 128 * 8192 / 10e12)


def test_the_efficiency_divides_the_speed():
    assert kernel_s(FULL, calibration(matmul_efficiency=0.5), "bf16") == pytest.approx(2 * kernel_s(FULL, calibration(), "bf16"))


def test_the_ramp_is_the_inner_size_of_half_the_speed():
    half, plain = (kernel_s(FULL, calibration(ramp=ramp), "bf16") for ramp in (8192, 1e-9))
    assert half == pytest.approx(2 * plain)


def test_an_eleventh_tile_begins_a_second_wave():
    """At best the smaller tiles divide the work evenly; at worst it takes two waves."""
    one, two = (kernel_s(Matmul(rows, 128, 8192), calibration(), "bf16") for rows in (2560, 2816))
    assert 1.1 * one < two <= 2 * one


def test_two_full_waves_take_twice_one():
    assert kernel_s(Matmul(5120, 128, 8192), calibration(), "bf16") == pytest.approx(2 * kernel_s(FULL, calibration(), "bf16"))


def test_rows_that_are_not_multiples_of_16_bytes_are_slow():
    """8 elements of two bytes. The rows of the left factor are ``inner`` long, those of the right and the result ``columns``."""
    slow = calibration(unaligned=0.25)
    for odd in (Matmul(2560, 128, 8191), Matmul(2560, 127, 8192)):
        assert kernel_s(odd, slow, "bf16") == pytest.approx(4 * kernel_s(odd, calibration(), "bf16"))
    assert kernel_s(Matmul(2559, 128, 8192), slow, "bf16") == pytest.approx(kernel_s(Matmul(2559, 128, 8192), calibration(), "bf16"))


def test_32_bits_run_without_tensor_cores_whose_alignment_does_not_matter():
    """Rows of 127 elements of four bytes; the ten tiles are 128 columns wide."""
    assert kernel_s(Matmul(2560, 127, 8192), calibration(unaligned=0.25), "fp32") == pytest.approx(2 * 2560 * 128 * 8192 / 10e12)


def test_a_thin_product_takes_as_long_as_its_matrices_from_memory():
    """Inner size 8: 26 MB at 1 TB/s are 26 us, and 0.21 GFLOP at 100 TFLOP/s 2 us."""
    thin = Matmul(10_240, 1280, 8)
    moved = 2 * (10_240 * 8 + 8 * 1280 + 10_240 * 1280)
    assert kernel_s(thin, calibration(), "bf16") == pytest.approx(moved / 1e12)
    assert kernel_s(thin, calibration(memory_efficiency=0.5), "bf16") == pytest.approx(2 * moved / 1e12)


def test_a_batch_fills_the_gpu_as_one_product_does():
    five = Matmul(512, 128, 8192, batch=5)
    assert kernel_s(five, calibration(), "bf16") == pytest.approx(kernel_s(FULL, calibration(), "bf16"))


def test_a_pass_is_bytes_over_bandwidth_and_an_overhead_a_kernel():
    lost = calibration(overhead_s=3e-6)
    assert kernel_s(Pass(10**9, 2), lost, "bf16") == pytest.approx(1e-3 + 6e-6)


@pytest.mark.parametrize("kernel", [Matmul(8, 8, 8), Attention(8, 8, 1, 64, 64, 1.0, False)])
def test_nothing_is_faster_than_its_launch(kernel):
    assert kernel_s(kernel, calibration(launch_s=5e-6), "bf16") == 5e-6
    assert kernel_s(Pass(8, 3), calibration(launch_s=5e-6), "bf16") == pytest.approx(15e-6)


def test_attention_runs_at_its_own_part_of_the_peak():
    """So long a sequence that it is at its full speed within a thousandth."""
    kernel = Attention(200_000, 200_000, 1, 64, 64, 0.5, False)
    own = calibration(attention_forward={64: 0.5}, attention_backward={64: 0.25})
    forward_s = 4 * 0.5 * 200_000**2 * 64 / (0.5 * 100e12)
    assert kernel_s(kernel, own, "bf16") == pytest.approx(forward_s, rel=1e-3)
    assert kernel_s(kernel._replace(backward=True), own, "bf16") == pytest.approx(2.5 * 2 * forward_s, rel=1e-3)
    assert kernel_s(kernel, own, "fp8") == kernel_s(kernel, own, "bf16")


def test_eight_bits_cast_their_factors():
    """Twice the peak, and 5 bytes moved for each element of both factors: read for the scale, read and written for the cast."""
    plain, cast = 2 * 2560 * 128 * 8192 / 200e12, 5 * (2560 * 8192 + 8192 * 128) / 1e12
    assert kernel_s(FULL, calibration(), "fp8") == pytest.approx(plain + cast)
    assert kernel_s(FULL, calibration(fp8_efficiency=0.5), "fp8") == pytest.approx(2 * plain + cast)
    assert kernel_s(FULL, calibration(fp8_efficiency=0.5), "bf16") == kernel_s(FULL, calibration(), "bf16")
