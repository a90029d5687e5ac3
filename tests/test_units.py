"""Quantities in and out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.units import bandwidth_text, parse, size_text, time_text, to_ps, transfer_ps

# By hand, from the definitions: decimal and binary prefixes, eight bits a byte.
SUFFIXES = {
    "bandwidth": {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12, "GiB/s": 2**30, "MiB/s": 2**20},
    "size": {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "time": {"s": 1, "min": 60, "h": 3600},
    "compute": {"FLOP/s": 1, "GFLOP/s": 10**9, "TFLOP/s": 10**12, "TFLOPS": 10**12, "PFLOP/s": 10**15},
}


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("200 Gb/s", "bandwidth", 25_000_000_000),
        ("25 GB/s", "bandwidth", 25_000_000_000),
        ("400Gb/s", "bandwidth", 50_000_000_000),
        ("1 GiB", "size", 1_073_741_824),
        ("1.073741824 GB", "size", 1_073_741_824),
        ("80 GiB", "size", 85_899_345_920),
        ("25 MB", "size", 25_000_000),
        ("5 us", "time", 5e-6),
        ("5 µs", "time", 5e-6),
        ("5 μs", "time", 5e-6),
        ("1.5 s", "time", 1.5),
        ("2 min", "time", 120.0),
        ("1000 h", "time", 3_600_000.0),
        ("3 ps", "time", 3e-12),
        ("1e3 ns", "time", 1e-6),
        ("  .5  ms ", "time", 5e-4),
        ("312 TFLOP/s", "compute", 312e12),
        ("312 TFLOPS", "compute", 312e12),
        ("1 EB/s", "bandwidth", 10**18),
    ],
)
def test_values(text, dimension, value):
    assert parse(text, dimension) == value


@given(st.data())
def test_every_suffix_multiplies(data):
    dimension = data.draw(st.sampled_from(list(SUFFIXES)))
    suffix = data.draw(st.sampled_from(list(SUFFIXES[dimension])))
    number = data.draw(st.integers(0, 1000))
    space = data.draw(st.sampled_from(["", " ", "  "]))
    assert parse(f"{number}{space}{suffix}", dimension) == number * SUFFIXES[dimension][suffix]


@given(st.integers(0, 10**17))
def test_bits_are_an_eighth(number):
    assert parse(f"{8 * number} b/s", "bandwidth") == number == parse(f"{number} B/s", "bandwidth")


@given(st.integers(0, 8192 * 10**6))  # up to 2^13 s the seconds that float64 holds are less than 1 ps apart
def test_picoseconds_survive_the_way_in(microseconds):
    assert to_ps(parse(f"{microseconds} us", "time")) == microseconds * 10**6


@given(st.floats(1e3, 1e17))
def test_what_is_printed_can_be_read(value):
    assert parse(bandwidth_text(value), "bandwidth") == pytest.approx(value, rel=1e-3)
    assert parse(size_text(value).partition(" (")[0], "size") == pytest.approx(value, rel=1e-3)
    assert parse(size_text(value).partition("(")[2].rstrip(")"), "size") == pytest.approx(value, rel=1e-3)


@given(st.floats(1e-11, 1e6))
def test_times_that_are_printed_can_be_read(seconds):
    assert parse(time_text(seconds), "time") == pytest.approx(seconds, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "dimension", "words"),
    [
        (25, "bandwidth", ("25 has no unit", "200 Gb/s")),
        ("25", "bandwidth", ("25 has no unit", "25 GB/s")),
        (0, "time", ("0 has no unit", "5 us")),
        (1.5, "size", ("1.5 has no unit", "80 GiB")),
        ("5 Gb", "bandwidth", ("unknown unit 'Gb'", "200 Gb/s")),
        ("5 GBps", "bandwidth", ("unknown unit 'GBps'",)),
        ("5 gb/s", "bandwidth", ("unknown unit 'gb/s'",)),
        ("5 s", "size", ("unknown unit 's'", "80 GiB")),
        ("5 S", "time", ("unknown unit 'S'",)),
        ("fast", "bandwidth", ("'fast' is not a number with a unit",)),
        ("", "time", ("not a number",)),
        ("nan s", "time", ("not a number",)),
        ("inf s", "time", ("not a number",)),
        (float("nan"), "time", ("not a number",)),
        (float("inf"), "bandwidth", ("not a number",)),
        ("1,000 Gb/s", "bandwidth", ("not a number",)),
        ("5 G b/s", "bandwidth", ("not a number",)),
        ("٥ Gb/s", "bandwidth", ("not a number",)),
        ("1e400 Gb/s", "bandwidth", ("out of range", "at most 1 EB/s")),
        ("1e9999 s", "time", ("not a number",)),
        ("1001 h", "time", ("out of range", "at most 1000 h")),
        ("-1001 h", "time", ("out of range",)),
        ("9" * 5000 + " s", "time", ("too many digits",)),
        ("1 " + "G" * 5000, "size", ("unknown unit",)),
        (True, "time", ("expected a quantity with a unit", "5 us")),
        (None, "time", ("expected a quantity",)),
        (["1 s"], "time", ("expected a quantity",)),
    ],
)
def test_what_is_refused_says_why_and_how_to_write_it(text, dimension, words):
    with pytest.raises(ValueError) as caught:
        parse(text, dimension)
    message = str(caught.value)
    assert all(word in message for word in words)
    assert len(message) < 250 and message.isprintable()


@pytest.mark.parametrize(
    ("volume_bytes", "capacity_bytes_s", "ps"),
    [(25_000_000_000, 25_000_000_000, 10**12), (1, 3, 333_333_333_333), (2, 3, 666_666_666_667), (0, 5, 0)],
)
def test_transfer_times_are_rounded_once(volume_bytes, capacity_bytes_s, ps):
    assert transfer_ps(volume_bytes, capacity_bytes_s) == ps
