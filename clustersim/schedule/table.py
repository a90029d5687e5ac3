"""A schedule as a text table: a row for each rank, its actions in order.

>>> from clustersim.schedule.torch_csv import read
>>> rows = read("0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1", "x.csv").rows
>>> print(table(rows, marks={(0, 2)}))
rank 0 |  0F0  0F1 >0B0< 0B1
rank 1 |  1F0  1B0  1F1  1B1
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from clustersim.schedule.torch_csv import Rows

_MOST_RANKS = 64
_MOST_BLOCKS = 6


def table(rows: Rows, marks: Collection[tuple[int, int]] = (), width: int | None = None) -> str:
    """The table in at most ``width`` columns (None: as many as it takes), ``>`` and ``<`` around the (rank, position) of ``marks``.

    Actions that do not fit go on in a further block of all ranks. Of many blocks and of many ranks those in the middle are left
    out, said so in their place; what is marked stays, as far as there is room.

    >>> from clustersim.schedule.torch_csv import read
    >>> print(table(read("0F0,0F1,0B0,0B1\\n1F0,1B0,1F1,1B1", "x.csv").rows, width=20))
    positions 0 to 1
    rank 0 |  0F0  0F1
    rank 1 |  1F0  1B0
    <BLANKLINE>
    positions 2 to 3
    rank 0 |  0B0  0B1
    rank 1 |  1F1  1B1
    """
    marked = set(marks)
    texts = [[str(step) for step in row] for row in rows]
    lengths = [max(len(row[at]) for row in texts if at < len(row)) for at in range(max(map(len, texts), default=0))]
    label = len(f"rank {max(len(texts) - 1, 0)}")
    blocks = _blocks(lengths, None if width is None else max(width - label - 3, 0))
    ranks = _kept(len(texts), sorted({rank for rank, _ in marked}), _MOST_RANKS)
    spot = {at: number for number, block in enumerate(blocks) for at in block}
    parts = []
    before = -1
    for number in _kept(len(blocks), sorted({spot[at] for _, at in marked if at in spot}), _MOST_BLOCKS):
        block = blocks[number]
        if number > before + 1:
            parts.append(f"... positions {blocks[before + 1].start} to {block.start - 1} are not shown ...")
        head = [f"positions {block.start} to {block.stop - 1}"] if len(blocks) > 1 else []
        parts.append("\n".join([*head, *_lines(texts, lengths, block, ranks, marked, label)]))
        before = number
    return "\n\n".join(parts)


def _blocks(lengths: list[int], width: int | None) -> list[range]:
    """The positions of each block, at least one in each.

    >>> _blocks([3, 3, 3, 9], 10), _blocks([], 10)
    ([range(0, 2), range(2, 3), range(3, 4)], [range(0, 0)])
    """
    blocks = []
    start = used = 0
    for at, length in enumerate(lengths):
        used += length + 2
        if width is not None and used > width and at > start:
            blocks.append(range(start, at))
            start, used = at, length + 2
    return [*blocks, range(start, len(lengths))]


def _kept(count: int, wanted: list[int], most: int) -> list[int]:
    """Of so many the first and last, and of those wanted as many as there is room for.

    >>> _kept(5, [], 8), _kept(100, [50, 51], 8)
    ([0, 1, 2, 3, 4], [0, 1, 50, 51, 98, 99])
    """
    if count <= most:
        return list(range(count))
    ends = [*range(most // 4), *range(count - most // 4, count)]
    room = most - len(ends)
    return sorted({*ends, *wanted[:room]})


def _lines(
    texts: list[list[str]], lengths: list[int], block: range, ranks: list[int], marked: set[tuple[int, int]], label: int
) -> Iterator[str]:
    before = -1
    for rank in ranks:
        if rank > before + 1:
            yield f"... ranks {before + 1} to {rank - 1} are not shown ..."
        before = rank
        cells = []
        for at in block:
            if at >= len(texts[rank]):
                break
            text = texts[rank][at]
            cell = f">{text}<" if (rank, at) in marked else f" {text} "
            cells.append(cell.ljust(lengths[at] + 2))
        yield f"{f'rank {rank}'.ljust(label)} | {''.join(cells)}".rstrip()
