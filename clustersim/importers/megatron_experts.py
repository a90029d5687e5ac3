"""Megatron-LM's options for mixtures of experts, as keys of an inline model and as the degree of expert parallelism.

>>> expert_layers(layer_pattern("([0]*1+[1]*26)"))
(1, 1)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from clustersim.document import shown
from clustersim.importers.arguments import Arguments
from clustersim.importers.experiment_text import Entry
from clustersim.model.shape import MAX_EXPERTS, MAX_LAYERS, MAX_SIZE

_EXPERTS, _DEGREE, _TENSOR = "--num-experts", "--expert-model-parallel-size", "--expert-tensor-parallel-size"
_FREQUENCY, _DISPATCHER = "--moe-layer-freq", "--moe-token-dispatcher-type"
_MAX_PATTERN = 100_000


def experts_of(arguments: Arguments) -> int:
    """How many there are; 0 for a dense model, and for one expert, which is one too."""
    experts = arguments.whole(_EXPERTS, 0, MAX_EXPERTS, minimum=0)
    return experts if experts > 1 else 0


def expert_model(arguments: Arguments, layers: int) -> dict[str, Entry]:
    """What an inline model says of its experts: nothing where it has none."""
    experts = experts_of(arguments)
    if not experts:
        return {}
    top_k = arguments.whole("--moe-router-topk", 2, MAX_EXPERTS)
    if top_k > experts:
        arguments.fail("--moe-router-topk", f"expected at most {_EXPERTS} {experts}, got {top_k}")
    model: dict[str, Entry] = {
        "experts": (str(experts), _EXPERTS),
        "top_k": (str(top_k), "--moe-router-topk" if "--moe-router-topk" in arguments else "Megatron-LM's default"),
    }
    for key, option in (("expert_ffn", "--moe-ffn-hidden-size"), ("shared_ffn", "--moe-shared-expert-intermediate-size")):
        size = arguments.whole(option, None, MAX_SIZE)
        if size is not None:
            model[key] = (str(size), option)
    return {**model, **_expert_layers(arguments, layers)}


def _expert_layers(arguments: Arguments, layers: int) -> dict[str, Entry]:
    text = arguments.text(_FREQUENCY)
    if text is None:
        return {}
    if text.isdecimal():
        return {"moe_every": (str(arguments.whole(_FREQUENCY, 1, layers)), _FREQUENCY)}
    try:
        pattern = layer_pattern(text)
        if len(pattern) != layers:
            raise ValueError(f"expected a list of --num-layers {layers} numbers, got {len(pattern)}")
        dense, every = expert_layers(pattern)
    except ValueError as error:
        arguments.fail(_FREQUENCY, str(error))
    return {"dense_layers": (str(dense), _FREQUENCY), "moe_every": (str(every), _FREQUENCY)}


def layer_pattern(text: str) -> list[int]:
    """The list that an expression of lists, ``+`` and ``*`` stands for. ValueError for anything else; nothing is run.

    >>> layer_pattern("[0]*2 + ([0, 1]*2)")
    [0, 0, 0, 1, 0, 1]
    """
    expected = f"expected a whole number or lists of 0 and 1 with + and *, as ([0]*1+[1]*26), got {shown(text)}"
    try:
        if len(text) > _MAX_PATTERN:
            raise ValueError
        found = _value(ast.parse(text.strip(" \t\"'"), mode="eval").body)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(expected) from None
    if not isinstance(found, list):
        raise ValueError(expected)
    return found


def _value(node: ast.expr) -> list[int] | int:
    match node:
        case ast.Constant(value=int(number)) if type(number) is int and number <= MAX_LAYERS:
            return number
        case ast.List(elts=elements):
            values = [int(one.value == 1) for one in elements if isinstance(one, ast.Constant) and one.value in (0, 1)]
            if len(values) == len(elements):
                return values
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _value(left), _value(right)
            if isinstance(first, list) and isinstance(second, list) and len(first) + len(second) <= MAX_LAYERS:
                return first + second
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _value(left), _value(right)
            if isinstance(second, list):
                first, second = second, first
            if isinstance(first, list) and isinstance(second, int) and len(first) * second <= MAX_LAYERS:
                return first * second
    raise ValueError


def expert_layers(pattern: Sequence[int]) -> tuple[int, int]:
    """The dense layers that a pattern begins with, and from there one layer in how many has experts. ValueError for others.

    >>> expert_layers([0, 1, 0, 0, 1, 0]), expert_layers([0, 0, 0, 1])
    ((1, 3), (3, 1))
    """
    places = [layer for layer, one in enumerate(pattern) if one]
    if not places:
        raise ValueError("no layer has experts; expected at least one")
    first, every = places[0], places[1] - places[0] if len(places) > 1 else len(pattern) - places[0]
    if places != list(range(first, len(pattern), every)):
        raise ValueError("layers with experts lie at unequal distances; expected dense layers, and from there one layer in so many")
    return first, every


def expert_degree(arguments: Arguments, data: int, context: int, tensor: int, notes: list[str]) -> int:
    """The ranks of an expert group, once it is sure that they divide experts and data ranks."""
    experts = experts_of(arguments)
    degree = arguments.whole(_DEGREE, 1, 10**6)
    if degree > 1 and not experts:
        arguments.fail(_DEGREE, f"expected 1 where {_EXPERTS} gives no experts to divide, got {degree}")
    if experts % degree:
        arguments.fail(_DEGREE, f"expected a divisor of {_EXPERTS} {experts}, got {degree}")
    group = _with_whole_experts(arguments, degree, tensor, notes) if experts else degree
    if data % group:
        arguments.fail(_DEGREE, f"groups of {group} ranks do not divide the {data} data ranks, which they are cut out of")
    if group > 1 and context > 1:
        notes.append("expert groups are cut out of the data ranks; Megatron-LM cuts them out of context and data ranks together")
    if group > 1:
        _note_dispatcher(arguments, notes)
    return group


def _with_whole_experts(arguments: Arguments, degree: int, tensor: int, notes: list[str]) -> int:
    """Every expert is divided over the tensor ranks. Whole ones on groups of t times the ranks are as many bytes on each."""
    own = arguments.whole(_TENSOR, tensor, 10**6)
    if own == tensor:
        return degree
    if own != 1:
        arguments.fail(_TENSOR, f"experts are divided over all {tensor} tensor ranks; allowed: {tensor}, or 1 for whole experts")
    if degree % tensor:
        arguments.fail(
            _TENSOR, f"whole experts take {_DEGREE} in multiples of the {tensor} tensor ranks, got {degree}; allowed: {tensor}, or without"
            " the option",
        )  # fmt: skip
    notes.append(
        f"{_TENSOR} is 1: whole experts on {degree} ranks are taken as experts divided over {tensor} tensor ranks on groups of"
        f" {degree // tensor}; a rank holds and reduces as much, but tensor collectives stand at the experts too"
    )
    return degree // tensor


def _note_dispatcher(arguments: Arguments, notes: list[str]) -> None:
    if arguments.text(_DISPATCHER, "allgather") == "allgather":
        origin = "given" if _DISPATCHER in arguments else "Megatron-LM's default"
        notes.append(f"tokens go to their experts by all-to-all; {_DISPATCHER} is allgather ({origin}), which moves more")
