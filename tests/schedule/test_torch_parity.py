"""The same orders as torch.distributed.pipelining. Skipped without torch."""

import re
from unittest.mock import MagicMock

import pytest

from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.placements import modular, wave

pytest.importorskip("torch")
from torch.distributed.pipelining import schedules

COMPUTE = re.compile(r"\d+[FBIW]\d+|\(.*\)OVERLAP_F_B")

SINGLE = [("gpipe", "ScheduleGPipe", p, m) for p, m in ((1, 3), (2, 1), (4, 8))]
SINGLE += [("1f1b", "Schedule1F1B", p, m) for p, m in ((1, 3), (2, 2), (4, 4), (4, 9))]

LOOPED = [(1, 2, 3), (2, 2, 4), (2, 3, 2), (4, 2, 8), (4, 2, 4), (4, 2, 2), (4, 2, 6), (4, 2, 10), (3, 4, 9), (4, 1, 8), (8, 2, 16)]
MULTI = [("breadth-first", "ScheduleLoopedBFS", modular(p, v), m) for p, v, m in (*LOOPED, (4, 2, 9))]
MULTI += [("interleaved-1f1b", "ScheduleInterleaved1F1B", modular(p, v), m) for p, v, m in LOOPED]
MULTI += [("interleaved-zb", "ScheduleInterleavedZeroBubble", modular(p, v), m) for p, v, m in LOOPED]
ZB_V = [(1, 1), (1, 4), (2, 1), (2, 3), (3, 8), (4, 3), (4, 7), (4, 12), (8, 20)]
MULTI += [("zb-v", "ScheduleZBVZeroBubble", wave(p, 2), m) for p, m in ZB_V]
DUAL_PIPE_V = [(1, 2), (2, 4), (2, 7), (3, 6), (4, 8), (4, 10), (8, 20)]
MULTI += [("dualpipe-v", "ScheduleDualPipeV", wave(p, 2), m) for p, m in DUAL_PIPE_V]


def stage(index, placement):
    """What torch asks of a stage to lay out the order."""
    stages = len(placement)
    return MagicMock(
        stage_index=index,
        num_stages=stages,
        group_size=max(placement) + 1,
        group_rank=placement[index],
        is_first=index == 0,
        is_last=index == stages - 1,
        submod=None,
    )


def words(actions):
    """Compute only: without idle steps and communication."""
    return [text for text in map(str, actions) if COMPUTE.fullmatch(text)]


def from_zero(texts):
    """The forwards numbered from 0: torch's 1F1B lists those of the last rank from 1."""
    least = min(int(text.partition("F")[2]) for text in texts if "F" in text)
    return [re.sub(r"F(\d+)", lambda number: f"F{int(number[1]) - least}", text) for text in texts]


@pytest.mark.parametrize(("name", "generator", "p", "m"), SINGLE)
def test_one_stage_per_rank(name, generator, p, m):
    placement = modular(p, 1)
    theirs = getattr(schedules, generator)(stage(0, placement), m)._get_pipeline_order()
    ours = ORDERS[name].run(placement, m)
    for rank in range(p):
        assert words(ours[rank]) == from_zero(words(theirs[rank])), rank


@pytest.mark.parametrize(("name", "generator", "placement", "m"), MULTI)
def test_several_stages_per_rank(name, generator, placement, m):
    local = [stage(index, placement) for index, rank in enumerate(placement) if rank == 0]
    theirs = getattr(schedules, generator)(local, m).pipeline_order
    ours = ORDERS[name].run(placement, m)
    for rank, actions in enumerate(ours):
        assert words(actions) == words(theirs[rank]), rank
