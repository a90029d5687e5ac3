import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clustersim.analysis.intervals import difference, intersection, length, union

pieces = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted), max_size=8)


def made(rows):
    return union([start for start, _ in rows], [end for _, end in rows])


def points(rows):
    return {point for start, end in rows for point in range(start, end)}


def test_the_worked_example():
    communication, compute = union([0], [10]), union([5], [15])
    assert length(intersection(communication, compute)) == 5
    assert length(difference(communication, compute)) == 5
    assert 15 - length(union([0, 5], [10, 15])) == 0


@given(pieces, pieces)
def test_sets_of_intervals_are_sets_of_points(a, b):
    assert length(made(a)) == len(points(a))
    assert length(intersection(made(a), made(b))) == len(points(a) & points(b))
    assert length(difference(made(a), made(b))) == len(points(a) - points(b))


@given(pieces)
def test_pieces_are_sorted_disjoint_and_not_empty(rows):
    start, end = made(rows)
    assert (end > start).all() and (start[1:] > end[:-1]).all()
    assert start.dtype == end.dtype == np.int64
