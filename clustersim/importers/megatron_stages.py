"""How Megatron-LM's options divide the layers over the stages of the pipeline.

>>> layout_stages("Et*3|(tt|)*2m,tL")
['Ettt', 'tt', 'tt', 'mtL']
>>> split_evenly(22, 4, 1, embedding=True, loss=True)
[5, 6, 6, 5]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clustersim.document import shown
from clustersim.importers.arguments import Arguments
from clustersim.model.shape import MAX_LAYERS

_FIRST, _LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
_EMBEDDING, _LOSS = "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"
_LAYOUT = "--pipeline-model-parallel-layout"
_PER_STAGE, _PER_RANK = "--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"
_NO_PIPELINE = "interleaved stages need a pipeline; allowed: with --pipeline-model-parallel-size of 2 or more"
_REPEATS = (re.compile(r"\(([^)]+)\)\*([0-9]{1,6})"), re.compile(r"(.)\*([0-9]{1,6})"))


@dataclass(frozen=True)
class Stages:
    """Stages per rank; layers of each stage, None for equal ones; and the options that say so."""

    chunks: int
    layers: tuple[int, ...] | None
    chunks_origin: str
    layers_origin: str


def read_stages(arguments: Arguments, layers: int, pipeline: int, notes: list[str]) -> Stages:
    """The division of the layers; InputError, with the line, for what leaves a stage without one."""
    chosen = [name for name in (_LAYOUT, _PER_STAGE, _PER_RANK) if name in arguments]
    if len(chosen) > 1:
        arguments.fail(chosen[1], f"{chosen[0]} is given too; expected one of them")
    if chosen == [_LAYOUT]:
        return _from_layout(arguments, layers, pipeline, notes)
    ends = [] if pipeline == 1 else [name for name in (_FIRST, _LAST) if name in arguments]
    accounts = [] if pipeline == 1 else [name for name in (_EMBEDDING, _LOSS) if arguments.flag(name)]
    if ends and accounts:
        arguments.fail(accounts[0], f"{ends[0]} is given too; expected one of them")
    per_rank = _ends(arguments, layers, pipeline) if ends else _equal(arguments, layers, pipeline, accounts)
    chunks = _chunks(arguments, chosen, per_rank, pipeline, uneven=bool(ends))
    if not ends and not accounts:
        return Stages(chunks, None, "".join(chosen), "")
    if ends:
        stages = [each // chunks for _ in range(chunks) for each in per_rank]
    else:
        stages = split_evenly(layers, pipeline, chunks, _EMBEDDING in accounts, _LOSS in accounts)
    if min(stages) < 1:
        arguments.fail((ends or accounts)[0], f"a stage would be left without a layer: {stages}; every stage needs one")
    return Stages(chunks, tuple(stages), "".join(chosen), ", ".join(ends or accounts))


def _equal(arguments: Arguments, layers: int, pipeline: int, accounts: list[str]) -> list[int]:
    """Layers of each rank, embedding and loss counted where the options say so."""
    if (layers + len(accounts)) % pipeline:
        counted = "".join(f" and one for {name}" for name in accounts)
        arguments.fail(
            "--num-layers", f"{layers} layers{counted} do not divide into {pipeline} pipeline stages; {_FIRST}, {_LAST} or"
            f" {_LAYOUT} would give uneven ones",
        )  # fmt: skip
    return [(layers + len(accounts)) // pipeline] * pipeline


def _ends(arguments: Arguments, layers: int, pipeline: int) -> list[int]:
    """The first and the last rank as given, the others share the rest."""
    first, last = (arguments.whole(name, None, MAX_LAYERS) for name in (_FIRST, _LAST))
    between = pipeline - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    if rest < between or (rest % between if between else rest):
        option = _LAST if first is None else _FIRST
        arguments.fail(
            option, f"leaves {rest} of {layers} layers to {between} other pipeline stages; allowed: what divides evenly over them"
        )
    middle = [rest // between] * between if between else []
    return [*([first] if first is not None else []), *middle, *([last] if last is not None else [])]


def _chunks(arguments: Arguments, chosen: list[str], per_rank: list[int], pipeline: int, uneven: bool) -> int:
    if not chosen:
        return 1
    option = chosen[0]
    if pipeline == 1:
        arguments.fail(option, _NO_PIPELINE)
    number = arguments.required(option, MAX_LAYERS)
    if option == _PER_STAGE and uneven:
        arguments.fail(option, f"not with stages of different sizes; {_PER_RANK} gives their number")
    odd = next((each for each in per_rank if each % number), None)
    if odd is not None:
        arguments.fail(option, f"expected a divisor of the {odd} layers of a pipeline rank, got {number}")
    return per_rank[0] // number if option == _PER_STAGE else number


def split_evenly(layers: int, pipeline: int, chunks: int, embedding: bool, loss: bool) -> list[int]:
    """Equal stages, of which embedding and loss take the place of a layer each."""
    stages = [(layers + embedding + loss) // (pipeline * chunks)] * (pipeline * chunks)
    stages[0] -= embedding
    stages[-1] -= loss
    return stages


def layout_stages(text: str) -> list[str]:
    """The letters of each stage: ``|`` divides, ``*n`` repeats a letter or what is in brackets, commas count for nothing.

    ValueError where it has other letters, or is too long.
    """
    found = text.strip("\"' ").replace(",", "")
    for pattern in _REPEATS:
        if sum(len(one[1]) * int(one[2]) for one in pattern.finditer(found)) > 10 * MAX_LAYERS:
            raise ValueError(f"expected at most {MAX_LAYERS:,} layers, got {shown(text)}")
        found = pattern.sub(lambda one: one[1] * int(one[2]), found)
    if set(found) - set("Etm|L"):
        raise ValueError(f"expected the letters E (embedding), t (layer), m (MTP), L (loss), |, and *n for repeats, got {shown(text)}")
    return found.split("|")


def _from_layout(arguments: Arguments, layers: int, pipeline: int, notes: list[str]) -> Stages:
    """Stage s lies on rank s modulo p."""
    other = next((name for name in (_FIRST, _LAST, _EMBEDDING, _LOSS) if name in arguments), None)
    if other:
        arguments.fail(other, f"{_LAYOUT} is given too; expected one of them")
    try:
        stages = layout_stages(arguments.text(_LAYOUT, ""))
    except ValueError as error:
        arguments.fail(_LAYOUT, str(error))
    if len(stages) % pipeline:
        arguments.fail(_LAYOUT, f"{len(stages)} stages on {pipeline} pipeline ranks; allowed: a multiple of {pipeline}")
    letters = "".join(stages)
    if letters[:1] != "E" or letters[-1:] != "L" or letters.count("E") + letters.count("L") != 2:
        arguments.fail(_LAYOUT, "expected E once, as the first letter, and L once, as the last")
    counts = tuple(stage.count("t") for stage in stages)
    if sum(counts) != layers:
        arguments.fail(_LAYOUT, f"it has {sum(counts)} layers (t); expected --num-layers {layers}")
    if 0 in counts:
        place = counts.index(0)
        arguments.fail(_LAYOUT, f"stage {place} ({stages[place]!r}) has no layer; stages of embedding, MTP or loss alone are not simulated")
    if pipeline == 1 and len(stages) > 1:
        arguments.fail(_LAYOUT, _NO_PIPELINE)
    if "m" in letters:
        notes.append("layers of multi-token prediction are not in the model; their stage works less than in the job")
    return Stages(len(stages) // pipeline, counts, _LAYOUT, _LAYOUT)
