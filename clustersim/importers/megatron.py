"""Megatron-LM arguments, as a command line or a launch script, made into an experiment file.

>>> line = "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
>>> line += "--seq-length 2048 --micro-batch-size 4 --global-batch-size 256 --tensor-model-parallel-size 4 --bf16 --lr 1e-4"
>>> imported = import_megatron(line, "run.sh")
>>> [line.split("#")[0].strip() for line in imported.text.splitlines() if "data" in line]
['data: 4']
>>> imported.unused
('--lr',)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from clustersim.errors import InputError
from clustersim.importers.arguments import Arguments
from clustersim.importers.common import Imported, option_count, option_text, readable, remark, scalar
from clustersim.importers.experiment_text import Entry, Job, experiment_text
from clustersim.importers.launchers import MODULES, Launch, find_launchers, read_directives, slurm_variables
from clustersim.importers.megatron_experts import expert_degree, expert_model
from clustersim.importers.megatron_stages import read_stages
from clustersim.importers.megatron_strategy import strategy
from clustersim.importers.megatron_unused import unused_text
from clustersim.importers.shell import Script, Word, read_script, shown_unknown
from clustersim.program.grid import DEFAULT_ORDER, Grid

WHAT = "Megatron-LM arguments, or a script that launches them"
DEFAULT_CLUSTER = "dgx-a100"
GPT2_VOCABULARY = 50257
_MARKS = ("--num-layers", "--hidden-size", "--micro-batch-size", "--tensor-model-parallel-size")
_SCRIPT = re.compile(r"\S+\.py")
_MAX_SIZE, _MAX_LAYERS, _MAX_DEGREE = 10**8, 100_000, 10**6
_PIPELINE_FIRST = "--use-tp-pp-dp-mapping"
_MAX_SHELLS = 4
# Commands that only show or copy their words.
_SHOWING = frozenset(("echo", "printf", "cat", "tee", "log", ":", "["))


@dataclass(frozen=True)
class _Found:
    """The launchers of the training script and its options; ``unused`` what else the text holds that counts, perhaps.

    Unless ``apart``, no script is seen between the two, and each has options of the other.
    """

    launch: Launch
    arguments: Arguments
    apart: bool
    world_size: str | None
    unused: tuple[str, ...]


def import_megatron(
    text: str,
    source: str,
    *,
    gpus: int | None = None,
    cluster: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Imported:
    """An experiment file from Megatron-LM's arguments; ``source`` is their name in messages.

    ``gpus`` is the world size, by default what the launcher says, or ``WORLD_SIZE``; ``cluster`` a preset or a topology file;
    ``variables`` are set as by the environment. InputError, with the line, for whatever is wrong.
    """
    text = readable(text, source, WHAT)
    notes: list[str] = []
    found = _find(text, source, variables or {}, notes)
    arguments = found.arguments
    grid, origin = _grid(found, source, gpus, notes)
    layers = arguments.required("--num-layers", _MAX_LAYERS)
    stages = read_stages(arguments, layers, grid.pipeline, notes)
    precision = _precision(arguments)
    job = Job(
        source=source,
        model=_model(arguments, layers, grid.tensor, notes),
        batch=_batch(arguments, grid.data, notes),
        cluster=_cluster(cluster, notes),
        parallel=_parallel(arguments, grid, origin),
        strategy=strategy(arguments, grid, stages, 4 if precision[0] == "fp32" else 2, notes),
        precision=precision,
        recompute=_recompute(arguments),
    )
    unused = (*_unused(found, gpus is not None), *found.unused)
    return Imported(experiment_text(job), tuple(notes), unused, None if gpus else found.launch.per_node())


def _unused(found: _Found, given: bool) -> list[str]:
    """Options of the launchers, then those of the script."""
    reason = ": --gpus is given" if given else ""
    launchers = found.launch.launchers
    taken = set() if found.apart else found.arguments.used
    unused = [
        f"{one.name} {remark(name)}{reason if one.counts(name) else ''}"
        for one in launchers
        for name in one.arguments.unused()
        if name not in taken
    ]
    known = set() if found.apart else {name for one in launchers for name in one.arguments.options}
    unused += [unused_text(remark(name)) for name in found.arguments.unused() if name not in known]
    words = [f"{one.name} {word}" for one in launchers for word in one.arguments.stray] + found.arguments.unknown()
    return unused + [f"{remark(word)}: known only when the script runs" for word in words]


def _find(text: str, source: str, variables: Mapping[str, str], notes: list[str]) -> _Found:
    """The training command in a text."""
    directives, ignored = read_directives(text, source)
    script = read_script(text, source, variables, slurm_variables(directives))
    commands = [inner for words in script.commands for inner in _inner_commands(words, source, script.variables, _MAX_SHELLS)]
    words = _training(commands, script, source)
    if script.branches:
        lines = ", ".join(map(str, script.branches[:5]))
        names = f" ({', '.join(script.branched[:10])})" if script.branched else ""
        notes.append(f"the script branches or loops (lines {lines}): every assignment there is taken once, the last one counts{names}")
    split, before = _split(words)
    launchers = find_launchers(words[:before], source)
    arguments = Arguments.of(words if split is None else words[split + 1 :], source)
    unread = [
        f"{remark(' '.join(shown_unknown(word.text) for word in words[:2]))} on line {words[0].line}: other files are not read"
        for words in commands
        if words[0].text in ("source", ".") and len(words) > 1
    ]
    launch = Launch((*([directives] if directives else ()), *launchers))
    return _Found(launch, arguments, split is not None, script.variables.get("WORLD_SIZE"), (*ignored, *unread))


def _training(commands: list[list[Word]], script: Script, source: str) -> list[Word]:
    """The one command that trains."""
    training = [words for words in commands if _is_training(words)]
    document = next((document for document in script.documents if any(mark in document.text for mark in _MARKS)), None)
    if not training:
        if document:
            raise InputError(f"{source}:{document.line}: here-documents are not read; give the text of this one as a file of its own")
        raise InputError(f"{source}: no command with {', '.join(_MARKS[:3])} found; expected {WHAT}")
    broken = next((words for before, words in pairwise(commands) if words[0].text.startswith("--") and _has_options(before)), None)
    if broken:
        raise InputError(
            f"{source}:{broken[0].line}: a command begins with {remark(shown_unknown(broken[0].text))}: the line before does not continue;"
            " expected a backslash as its last character, and no comment in between"
        )
    if len(training) > 1:
        lines = ", ".join(str(words[0].line) for words in training[:5])
        raise InputError(f"{source}: {len(training)} training commands, on lines {lines}; expected one")
    return training[0]


def _has_options(words: list[Word]) -> bool:
    return any(word.text.startswith("--") or _SCRIPT.fullmatch(word.text) for word in words)


def _is_mark(word: Word) -> bool:
    return word.text.partition("=")[0] in _MARKS


def _is_training(words: list[Word]) -> bool:
    return words[0].text not in _SHOWING and any(map(_is_mark, words))


def _inner_commands(words: list[Word], source: str, variables: Mapping[str, str], levels: int) -> list[list[Word]]:
    """The command, or where it has a whole command in one word, as after ``bash -c`` or ``eval``, those in there."""
    for position, word in enumerate(words):
        if any(re.search(rf"{mark}[\s=]", word.text) for mark in _MARKS) and not _is_mark(word) and words[0].text not in _SHOWING:
            if not levels:
                raise InputError(f"{source}:{word.line}: a command in a command, again and again; allowed: {_MAX_SHELLS} levels")
            inner = [
                whole
                for command in read_script(word.text, source, defaults=variables, first_line=word.line).commands
                for whole in _inner_commands(command, source, variables, levels - 1)
            ]
            return [[*words[:position], *whole, *words[position + 1 :]] if any(map(_is_mark, whole)) else whole for whole in inner]
    return [words]


def _split(words: list[Word]) -> tuple[int | None, int]:
    """Where the training script stands (None: it is not seen), and where the launchers' words end."""
    first = next(i for i, word in enumerate(words) if _is_mark(word))
    scripts = [i for i in range(first) if _SCRIPT.fullmatch(words[i].text)]
    modules = [i for i in range(1, first) if words[i - 1].text in ("-m", "--module") and words[i].text not in MODULES]
    # An option may have a Python file as its value; --standalone and the like have none.
    placed = [i for i in scripts if not i or not words[i - 1].text.startswith("--")]
    found = placed[-1:] or scripts[:1]
    if found or not modules:
        return (found[0], found[0]) if found else (None, first)
    return modules[0], modules[0] - 1


def _world_size(found: _Found, source: str, gpus: int | None, notes: list[str]) -> tuple[int, str]:
    if gpus is not None:
        return option_count(gpus, "--gpus", "the number of GPUs"), "--gpus"
    world_size = found.world_size if re.fullmatch(r"[1-9][0-9]{0,6}", found.world_size or "", re.ASCII) else None
    counted = found.launch.world_size(notes)
    if counted is not None:
        total, origin = counted
        if world_size not in (None, str(total)):
            notes.append(f"WORLD_SIZE is {world_size}, but the launcher starts {total} processes ({origin}); {total} GPUs are taken")
    elif world_size is not None:
        total, origin = int(world_size), "WORLD_SIZE"
    else:
        raise InputError(
            f"{source}: the number of GPUs is not given; expected --nnodes and --nproc_per_node of torchrun, the number of tasks of"
            " srun or mpirun, or --gpus"
        )
    return option_count(total, f"{source}: {origin}", "a number of GPUs"), origin


def _grid(found: _Found, source: str, gpus: int | None, notes: list[str]) -> tuple[Grid, str]:
    """The degrees, and where the number of GPUs is from; data ranks are what the other degrees leave."""
    arguments = found.arguments
    given = {name: arguments.whole(f"--{name}-parallel-size", 1, _MAX_DEGREE) for name in ("tensor-model", "pipeline-model", "context")}
    tensor, pipeline, context = given.values()
    world, origin = _world_size(found, source, gpus, notes)
    if world % (tensor * pipeline * context):
        shown = [f"--{name}-parallel-size {degree}" for name, degree in given.items() if name != "context" or degree > 1]
        raise InputError(
            f"{source}: {world} GPUs ({origin}) do not divide by {' x '.join(shown)}; allowed: multiples of {tensor * pipeline * context},"
            " --gpus gives another number"
        )
    data = world // (tensor * pipeline * context)
    expert = expert_degree(arguments, data, context, tensor, notes)
    return Grid(tensor, data, pipeline, context, expert), origin


def _model(arguments: Arguments, layers: int, tensor: int, notes: list[str]) -> dict[str, Entry]:
    hidden = arguments.required("--hidden-size", _MAX_SIZE)
    heads = arguments.required("--num-attention-heads", _MAX_SIZE)
    if heads % tensor:
        arguments.fail("--num-attention-heads", f"{heads} heads do not divide by --tensor-model-parallel-size {tensor}")
    model: dict[str, Entry] = {
        "layers": (str(layers), "--num-layers"),
        "hidden": (str(hidden), "--hidden-size"),
        "heads": (str(heads), "--num-attention-heads"),
    }
    if arguments.flag("--group-query-attention"):
        groups = arguments.whole("--num-query-groups", 1, _MAX_SIZE)
        if heads % groups:
            arguments.fail("--num-query-groups", f"expected a divisor of --num-attention-heads {heads}, got {groups}")
        model["kv_heads"] = (str(groups), "--num-query-groups" if "--num-query-groups" in arguments else "Megatron-LM's default")
    channels = arguments.whole("--kv-channels", None, _MAX_SIZE)
    if channels is not None:
        model["head_size"] = (str(channels), "--kv-channels")
    elif hidden % heads:
        arguments.fail(
            "--num-attention-heads", f"expected a divisor of --hidden-size {hidden} where --kv-channels is not given, got {heads}"
        )
    gated = arguments.flag("--swiglu")
    ffn = arguments.whole("--ffn-hidden-size", None, _MAX_SIZE)
    if ffn is not None:
        model["ffn"] = (str(ffn), "--ffn-hidden-size")
    elif gated:
        model["ffn"] = (str(max(64, hidden * 8 // 3 // 64 * 64)), "Megatron-LM's default with --swiglu: 8/3 of hidden, in steps of 64")
    if gated:
        model["gated"] = ("true", "--swiglu")
    model |= expert_model(arguments, layers)
    _check_family(arguments, gated, notes)
    vocab = _vocabulary(arguments, tensor, notes)
    if vocab is not None:
        model["vocab"] = vocab
    return model


def _check_family(arguments: Arguments, gated: bool, notes: list[str]) -> None:
    """A gated inline model is Llama in the rest too, one that is not gated the plain GPT: say where the job is neither."""
    llama = {
        "--untie-embeddings-and-output-weights": arguments.flag("--untie-embeddings-and-output-weights"),
        "--disable-bias-linear": arguments.flag("--disable-bias-linear"),
        "--normalization RMSNorm": arguments.text("--normalization", "LayerNorm") == "RMSNorm",
        "--position-embedding-type rope": arguments.text("--position-embedding-type") == "rope"
        or arguments.flag("--use-rotary-position-embeddings"),
    }
    differing = [name for name, given in llama.items() if given != gated]
    if differing:
        kin = "a gated model is taken for Llama's kin, as if these were given"
        plain = "a model that is not gated is taken for the plain GPT, as if these were not given"
        notes.append(f"{kin if gated else plain}: {', '.join(differing)}")


def _vocabulary(arguments: Arguments, tensor: int, notes: list[str]) -> Entry | None:
    multiple = arguments.whole("--make-vocab-size-divisible-by", 128, _MAX_SIZE) * tensor
    padded = arguments.whole("--padded-vocab-size", None, _MAX_SIZE)
    if padded is not None:
        arguments.whole("--vocab-size", None, _MAX_SIZE)
        return str(padded), "--padded-vocab-size"
    given = arguments.whole("--vocab-size", None, _MAX_SIZE)
    tokenizer = arguments.text("--tokenizer-type")
    if given is None and tokenizer not in (None, "GPT2BPETokenizer"):
        notes.append(f"the vocabulary of {remark(tokenizer)} is not in the arguments; the file takes the default of an inline model")
        return None
    origin = "--vocab-size"
    if given is None:
        given, origin = GPT2_VOCABULARY, "GPT-2's"
        notes.append(f"the vocabulary is assumed, GPT-2's {GPT2_VOCABULARY}; --vocab-size would give it")
    elif tokenizer == "NullTokenizer":
        given, origin = given + 1, "--vocab-size + 1 (NullTokenizer)"
    size = -(-given // multiple) * multiple
    if size > _MAX_SIZE:
        arguments.fail("--make-vocab-size-divisible-by", f"pads the vocabulary to {size:,}; allowed: at most {_MAX_SIZE:,}")
    return str(size), f"{origin}, {given}, padded to a multiple of {multiple}"


def _batch(arguments: Arguments, data: int, notes: list[str]) -> dict[str, Entry]:
    micro = arguments.required("--micro-batch-size", 10**6)
    total = arguments.whole("--global-batch-size", None)
    origin = "--global-batch-size"
    if total is None:
        total, origin = micro * data, "Megatron-LM's default: one micro-batch a replica"
        notes.append(f"--global-batch-size is not given; {total} is Megatron-LM's default, one micro-batch on each of {data} replicas")
    if total % (micro * data):
        arguments.fail(
            origin,
            f"{total} sequences do not divide into micro-batches of {micro} on {data} replicas; allowed: multiples of {micro * data}",
        )
    sequence = arguments.required("--seq-length")
    return {
        "global": (str(total), origin),
        "micro": (str(micro), "--micro-batch-size"),
        "sequence": (str(sequence), "--seq-length"),
    }


def _parallel(arguments: Arguments, grid: Grid, origin: str) -> dict[str, Entry]:
    parallel: dict[str, Entry] = {
        "data": (str(grid.data), f"{origin} / tensor / pipeline{' / context' if grid.context > 1 else ''}"),
        "pipeline": (str(grid.pipeline), "--pipeline-model-parallel-size"),
        "tensor": (str(grid.tensor), "--tensor-model-parallel-size"),
    }
    if grid.context > 1:
        parallel["context"] = (str(grid.context), "--context-parallel-size")
    if grid.expert > 1:
        parallel["expert"] = (str(grid.expert), "--expert-model-parallel-size")
    if grid.tensor > 1 and arguments.flag("--sequence-parallel"):
        parallel["sequence_parallel"] = ("true", "--sequence-parallel")
    if arguments.flag(_PIPELINE_FIRST):
        if grid.expert > 1 and grid.pipeline > 1:
            arguments.fail(_PIPELINE_FIRST, "not with expert parallelism, whose groups would lie across the pipeline; leave it out")
        inner = [name for name in DEFAULT_ORDER if name not in ("data", "pipeline")]
        parallel["order"] = (f"[{', '.join([*inner, 'pipeline', 'data'])}]", _PIPELINE_FIRST)
    return parallel


def _precision(arguments: Arguments) -> Entry:
    given = [name for name in ("--bf16", "--fp16") if arguments.flag(name)]
    if len(given) == 2:
        arguments.fail("--fp16", "--bf16 is given too; expected one of them")
    return (given[0][2:], given[0]) if given else ("fp32", "neither --bf16 nor --fp16")


def _recompute(arguments: Arguments) -> Entry:
    granularity = arguments.choice("--recompute-granularity", ("full", "selective"))
    if arguments.flag("--recompute-activations"):
        return "selective", "--recompute-activations"
    return (granularity, "--recompute-granularity") if granularity else ("none", "no --recompute-granularity")


def _cluster(cluster: str | None, notes: list[str]) -> Entry:
    if cluster is None:
        notes.append(f"the arguments name no machine; cluster {DEFAULT_CLUSTER} is assumed, --cluster gives another")
        return DEFAULT_CLUSTER, "assumed"
    return scalar(option_text(cluster, "--cluster", "a preset or the path of a topology file")), "--cluster"
