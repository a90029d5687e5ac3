"""The command line: arguments in, one call, results out. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from clustersim.errors import InputError

_EXPERIMENT_HELP = "experiment file (YAML), or the name of a shipped one"
_TRACE_HELP = "a run folder, or PyTorch profiler files (one a rank), or a folder of them"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0 done, 2 wrong input, 130 interrupted."""
    _open_streams()
    try:
        options = _parser().parse_args(arguments)
        module = importlib.import_module(f"clustersim.commands.{options.module}")
        getattr(module, options.function)(options)
        sys.stdout.flush()
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:
        _drop_output()  # the reader went away, as `| head` does
    except OSError as error:
        if error.filename is None:  # a full disk under stdout
            _drop_output()
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}")
    except MemoryError:
        return _fail("out of memory; use fewer micro-batches, layers or simulated ranks")
    except KeyboardInterrupt:
        with suppress(OSError):
            print("clustersim: interrupted", file=sys.stderr)
        return 130
    return 0


def _fail(message: str) -> int:
    line = " ".join(message.split())
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    with suppress(OSError):  # nobody can be told
        print(f"clustersim: {printable}", file=sys.stderr)
    return 2


def _open_streams() -> None:
    """A closed stream takes everything and keeps nothing; a character that the terminal lacks prints as its escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Send what is still to be written to nowhere, so that the interpreter does not complain on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Errors on one line, with the nearest known word."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self._negative_number_matcher = re.compile(r"-[0-9.]")  # `-1s` is a value, which the command then refuses by its name

    def error(self, message: str) -> NoReturn:
        _fail(f"{message}; see `{self.prog} --help`")
        self.exit(2)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unknown argument {_with_nearest(unknown[0], self._option_string_actions)}")
        return namespace, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = f"{_with_nearest(value, action.choices)}; allowed: {', '.join(action.choices)}"
            raise argparse.ArgumentError(action, f"unknown {known}")


def _with_nearest(word: str, known: Iterable[str]) -> str:
    from clustersim.document import nearest, shown

    return f"{shown(word)}{nearest(word, list(known))}"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="clustersim", description="Simulate GPU clusters that train transformers.")
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    run = _command(commands, "run", "simulate one step", "clustersim run gpt3-175b --set strategy.name=standard -o runs/gpt3")
    _experiment(run, "run")
    run.add_argument("--no-plot", action="store_true", help="do not draw gantt.png")

    compare = _command(
        commands, "compare", "the same work under several strategies", "clustersim compare pipeline-shapes --strategies standard,mpp"
    )
    _experiment(compare, "compare")
    compare.add_argument("--strategies", default="standard,lga,mpp", metavar="A,B", help="names, default %(default)s")

    sweep = _command(
        commands, "sweep", "the same experiment with some fields varied: table, curves, how slow the network may be",
        "clustersim sweep pipeline-shapes --vary strategy.name=standard,mpp --vary batch.global=8..64",
    )  # fmt: skip
    sweep.add_argument("experiment", metavar="EXPERIMENT", help=_EXPERIMENT_HELP)
    sweep.add_argument(
        "--vary", action="append", default=[], metavar="PATH=VALUES",
        help="repeatable; VALUES: a list A,B, a range A..B (doubling), A..B:lin5 or A..B:log8, as network.bandwidth=10..400Gb/s:log8",
    )  # fmt: skip
    sweep.add_argument("--zip", action="store_true", help="the first values of all fields together, then the second ones, and so on")
    sweep.add_argument("--tolerance", type=_percent, metavar="PERCENT", help="the knee is where a step takes so much longer, default 5")
    sweep.add_argument("--no-knees", action="store_true", help="do not search the knees of varied bandwidths")
    sweep.add_argument("--tornado", action="store_true", help="also halve and double each link and degree, to see what matters most")
    sweep.add_argument("--metric", metavar="KEY", help="draw this figure of the summary, for example mfu, default the usual six")
    sweep.add_argument("--jobs", type=_positive, metavar="N", help="processes, default one a core")
    sweep.add_argument("--dask", metavar="ADDRESS", help="simulate on the Dask cluster of this scheduler instead, tcp://HOST:PORT")
    _overrides(sweep, "default runs/EXPERIMENT-sweep; points that are there already are not simulated again")
    _json(sweep)
    sweep.set_defaults(module="sweep", function="sweep")

    validate = _command(commands, "validate", "predictions against published measurements", "clustersim validate --source megatron-2020")
    validate.add_argument("--source", action="append", default=[], metavar="NAME", help="only this one, repeatable, default all")
    validate.add_argument("-o", dest="output", metavar="DIR", help="write the rows, the errors and a picture here")
    _json(validate)
    validate.set_defaults(module="validate", function="validate")

    calibrate = _command(
        commands, "calibrate", "the figures of a GPU under a software, fitted to measured kernels or steps",
        "clustersim calibrate H100-SXM5-80GB/matmul --gpu H100-SXM5-80GB --fit matmul_efficiency,ramp,overhead -o h100.yaml",
    )  # fmt: skip
    calibrate.add_argument("csv", metavar="CSV", help="measured kernels or times of experiments; or the name of a shipped one, GPU/NAME")
    calibrate.add_argument("--gpu", metavar="NAME", help="what kernels were measured on; of experiments, their cluster's")
    calibrate.add_argument("--software", metavar="NAME", help="its generation, default that of the rows, or the usual one of the GPU")
    calibrate.add_argument("--like", metavar="GPU/SOFTWARE", help="the figures that are not fitted, default the shipped ones of the pair")
    calibrate.add_argument("--fit", default="matmul_efficiency", metavar="A,B",
                           help="figures by their keys in the file, default %(default)s")
    calibrate.add_argument("--experiment", metavar="EXPERIMENT", help="an experiment file below the keys of the rows")
    calibrate.add_argument("-o", dest="output", metavar="FILE", help="write the calibration here, .yaml, for `cost: FILE`")
    _json(calibrate)
    calibrate.set_defaults(module="calibrate", function="calibrate")

    plan = _command(
        commands, "plan", "the fastest configurations that fit, and how long the training takes",
        "clustersim plan megatron-1.7b dgx-a100 --gpus 16 --batch 64 --strategies standard,mpp",
    )  # fmt: skip
    plan.add_argument("model", metavar="MODEL", help="a preset, or a path to a config.json")
    plan.add_argument("cluster", nargs="?", metavar="CLUSTER", help="a preset or a topology file")
    plan.add_argument("--cluster", dest="cluster_option", metavar="CLUSTER", help="the same as an option")
    plan.add_argument("--gpus", metavar="N|A..B", help="at most N; A..B: also the best for every half of B down to A")
    plan.add_argument("--batch", metavar="N|critical", help="sequences a step, default critical: as the scaling law says")
    slack = "a step may have so much less than the batch, where that divides better, default 1"
    plan.add_argument("--batch-slack", dest="batch_slack_percent", type=float, metavar="PERCENT", help=slack)
    plan.add_argument("--sequence", type=_positive, metavar="TOKENS", help="default: the model's own")
    plan.add_argument("--node-size", type=_positive, metavar="N", help="GPUs of a node, default the cluster's")
    for option, what in (
        ("tensor", "divisors of the node and the heads"), ("pipeline", "divisors of the layers"), ("data", "any"),
        ("context", "such that a rank has 4,096 tokens or more"), ("expert", "powers of two"),
        ("micro-batch", "1,2,4 ... as far as batch and memory go"),
        ("chunks", "all, down to one layer a stage"),
    ):  # fmt: skip
        plan.add_argument(f"--{option}", metavar="A,B|A..B", help=f"allowed values, default {what}")
    names = "default standard,interleaved-1f1b,mpp; where given, the best of each is printed too"
    plan.add_argument("--strategies", metavar="A,B", help=names)
    for option, what in (("partition", "all four"), ("recompute", "all three"), ("offload", "none")):
        plan.add_argument(f"--{option}", metavar="A,B", help=f"allowed values, default {what}")
    plan.add_argument("--sequence-parallel", choices=("on", "off", "both"), help="with tensor parallelism, default on")
    plan.add_argument("--objective", choices=("time", "gpu-hours", "cost"), help="what is to be small, default time")
    plan.add_argument(
        "--limit", dest="limits", action="append", metavar="NAME=VALUE",
        help="of the whole training: days, gpu-hours, cost, energy-kwh; of a GPU: memory, as memory=70GiB; repeatable",
    )  # fmt: skip
    plan.add_argument("--price", metavar="RATE", help="of a GPU, as 2.5/h")
    plan.add_argument("--gpu-power", metavar="WATTS", help="of a GPU with its part of the node, as 600W")
    plan.add_argument("--pue", type=float, metavar="X", help="power usage effectiveness of the building, default 1.2")
    plan.add_argument("--law", choices=("lamy-poirier", "kaplan"), help="the scaling law of critical batch and steps, default lamy-poirier")
    plan.add_argument("--steps", type=float, metavar="N", help="steps at the batch, instead of the law's")
    plan.add_argument("--tokens", type=float, metavar="N", help="tokens of the training, instead of the law's")
    plan.add_argument("--cost", choices=("peak",), help="every FLOP at the GPU's peak, as papers count")
    plan.add_argument("--top", type=_positive, metavar="K", help="so many plans, default 10")
    plan.add_argument("--proven", type=_positive, metavar="K", help="the first so many are proven to be the best of all, default 1")
    plan.add_argument("--jobs", type=_positive, metavar="N", help="processes, default one a core")
    _overrides(plan, "default none: nothing is written")
    _json(plan)
    plan.set_defaults(module="plan", function="plan")

    gantt = _command(
        commands, "gantt", "charts of a trace over time",
        "clustersim gantt runs/pipeline-shapes -o step.svg --critical-path --ranks 0-1,3 --from 10s --to 60s",
    )  # fmt: skip
    gantt.add_argument("trace", nargs="+", metavar="TRACE", help=_TRACE_HELP)
    gantt.add_argument("-o", dest="output", default="gantt.png", metavar="FILE",
                       help=".png, .svg, .pdf, or .html (the page of report), default %(default)s")
    gantt.add_argument(
        "--chart", choices=("gantt", "utilization", "links"), default="gantt",
        help="what runs when; what the ranks do over time; how busy the links are; default %(default)s",
    )  # fmt: skip
    gantt.add_argument("--critical-path", action="store_true", help="mark the chain of ops that makes the trace as long as it is")
    gantt.add_argument("--ranks", metavar="0-3,8", help="only these ranks")
    gantt.add_argument("--from", dest="start", metavar="TIME", help="begin of the window, for example 1.5s")
    gantt.add_argument("--to", dest="end", metavar="TIME", help="end of the window")
    _json(gantt)
    gantt.set_defaults(module="gantt", function="gantt")

    analyze = _command(
        commands, "analyze", "what limits a step, and where its time goes", "clustersim analyze runs/pipeline-shapes --from 10s --to 60s"
    )
    analyze.add_argument("trace", nargs="*", metavar="TRACE",
                         help="a run folder, or PyTorch profiler files (one a rank), or a folder of them")
    analyze.add_argument("--definition", choices=("ours", "hta"), default="ours",
                         help="figures as HolisticTraceAnalysis defines them, default %(default)s")
    analyze.add_argument("--diff", nargs=2, metavar=("A", "B"), help="what changed from one trace to another")
    analyze.add_argument("--from", dest="start", metavar="TIME", help="begin of the window, for example 1.5s")
    analyze.add_argument("--to", dest="end", metavar="TIME", help="end of the window")
    analyze.add_argument("--step", type=_whole, metavar="N", help="the window is this step, by its number (the first of a run is 0)")
    analyze.add_argument("-o", dest="output", metavar="DIR", help="write the analysis, the critical path and the slack of every op here")
    _json(analyze)
    analyze.set_defaults(module="analyze", function="analyze")

    report = _command(
        commands, "report", "one page about a run, for a browser without a network", "clustersim report runs/pipeline-shapes -o report.html"
    )
    report.add_argument("trace", nargs="+", metavar="TRACE", help=_TRACE_HELP)
    report.add_argument("-o", dest="output", default="report.html", metavar="FILE", help=".html, default %(default)s")
    report.add_argument("--ranks", metavar="0-3,8", help="only these ranks in the charts")
    report.add_argument("--from", dest="start", metavar="TIME", help="begin of the window, for example 1.5s")
    report.add_argument("--to", dest="end", metavar="TIME", help="end of the window")
    _json(report)
    report.set_defaults(module="report", function="report")

    export = _command(
        commands, "convert", "a run for other programs: Perfetto, profilers, simulators, tables",
        "clustersim convert runs/pipeline-shapes --to chrome --ranks 0-3 --from 10s --until 60s -o step.json.gz",
    )  # fmt: skip
    export.add_argument("trace", metavar="TRACE",
                        help="a run folder, an export of one, or PyTorch profiler files: one, or a folder of them")
    formats = ("chrome", "kineto", "chakra", "csv", "parquet")
    export.add_argument("--to", required=True, choices=formats, help="chrome: one file for Perfetto; the others: a folder of files")
    export.add_argument("-o", dest="output", metavar="FILE|DIR", help="default TRACE.json.gz, or TRACE-FORMAT, here")
    export.add_argument("--ranks", metavar="0-3,8", help="only these ranks, without the links")
    export.add_argument("--from", dest="start", metavar="TIME", help="only ops with time after this, whole; for example 1.5s")
    export.add_argument("--until", dest="end", metavar="TIME", help="only ops with time before this, whole")
    _json(export)
    export.set_defaults(module="convert", function="convert")

    topology = commands.add_parser("topology", help="clusters: show, check, import")
    topology_commands = topology.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, summary in (("show", "a cluster as a table"), ("check", "whether a topology file is right")):
        command = _command(topology_commands, name, summary, f"clustersim topology {name} dgx-a100")
        command.add_argument("cluster", metavar="CLUSTER", help="a preset or a topology file")
        if name == "show":
            command.add_argument("--nodes", type=_positive, default=None, metavar="N", help="default: as few as show every level")
            command.add_argument("-o", dest="output", metavar="FILE", help="picture, .png, .svg or .pdf, default runs/topology-NAME.png")
        _json(command)
        command.set_defaults(module="topology", function=name)

    bring = _command(
        topology_commands, "import", "a topology file from `nvidia-smi topo -m` or NCCL's topology XML",
        'clustersim topology import topo.txt --gpu H100 --network "400 Gb/s" -o my-box.yaml',
    )  # fmt: skip
    bring.add_argument("file", metavar="FILE", help="output of `nvidia-smi topo -m`, or NCCL topology XML; - is stdin")
    bring.add_argument("--format", choices=("nvidia-smi", "nccl"), help="default: by content")
    bring.add_argument("--gpu", metavar="NAME", help="a GPU of a shipped topology, or fill-in")
    bring.add_argument("--network", metavar="BANDWIDTH", help="of one NIC, for example 200 Gb/s (nvidia-smi only)")
    bring.add_argument("--nics", metavar="A,B", help="only these NICs (nvidia-smi only)")
    bring.add_argument("--name", default="imported", help="name of the cluster, default %(default)s")
    bring.add_argument("-o", dest="output", metavar="FILE", help="default: stdout")
    _json(bring)
    bring.set_defaults(module="importing", function="topology")

    job = _command(
        commands, "import", "an experiment file from Megatron-LM arguments or a DeepSpeed JSON",
        "clustersim import train.sh --gpus 1024 --cluster dgx-h100 -o job.yaml",
    )  # fmt: skip
    job.add_argument("file", metavar="FILE", help="a launch script, a command line in a file, or a DeepSpeed JSON; - is stdin")
    job.add_argument("--format", choices=("megatron", "deepspeed"), help="default: by content")
    job.add_argument("--gpus", type=_positive, metavar="N", help="GPUs of the job, where the file does not say")
    job.add_argument("--cluster", metavar="CLUSTER", help="a preset or a topology file, default dgx-a100")
    job.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the script, repeatable")
    job.add_argument("--model", metavar="MODEL", help="DeepSpeed: the model")
    job.add_argument("--tensor", type=_positive, metavar="T", help="DeepSpeed: tensor-parallel degree, default 1")
    job.add_argument("--pipeline", type=_positive, metavar="P", help="DeepSpeed: pipeline stages, default 1")
    job.add_argument("--sequence", type=_positive, metavar="TOKENS", help="DeepSpeed: sequence length")
    job.add_argument("--recompute", choices=("none", "selective", "full"), help="DeepSpeed: default none")
    job.add_argument("--value", action="append", default=[], metavar="KEY=VALUE", help='DeepSpeed: in place of "auto", repeatable')
    job.add_argument("-o", dest="output", metavar="FILE", help="default: stdout")
    _json(job)
    job.set_defaults(module="importing", function="job")

    collective = _command(
        commands, "collective", "time and bandwidth of a collective, by size and algorithm",
        "clustersim collective --cluster dgx-a100 --op all-reduce --size 1MB..1GB --ranks 0-15",
    )  # fmt: skip
    collective.add_argument("--cluster", required=True, metavar="CLUSTER", help="a preset or a topology file")
    collective.add_argument("--op", default="all-reduce", metavar="OP", help="all-reduce, all-gather, ..., default %(default)s")
    collective.add_argument("--size", default="1KB..4GB", metavar="SIZES", help="1MB, 1MB,1GB or 1KB..4GB, default %(default)s")
    collective.add_argument("--ranks", metavar="0-15", help="GPUs of the cluster, default those of one node")
    collective.add_argument("--algorithm", metavar="A,B", help="ring, tree, ..., default all that can do it")
    collective.add_argument("-o", dest="output", metavar="FILE", help="draw the bus bandwidth, .png, .svg or .pdf")
    _json(collective)
    collective.set_defaults(module="collective", function="collective")

    schedule = commands.add_parser("schedule", help="schedules: show, compare, check, convert")
    schedule_commands = schedule.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    show = _command(schedule_commands, "show", "the actions of each rank", "clustersim schedule show mpp -p 4 -v 2 -m 8")
    show.add_argument("name", metavar="NAME", help="standard, lga, mpp, 1f1b, zb-v, ...: `clustersim schedule compare` lists all")
    show.add_argument("-p", type=_positive, default=4, metavar="P", help="pipeline ranks, default %(default)s")
    show.add_argument("-v", type=_positive, default=None, metavar="V", help="stages per rank, default the schedule's own")
    show.add_argument("-m", type=_positive, default=8, metavar="M", help="micro-batches, default %(default)s")
    show.add_argument("-o", dest="output", metavar="FILE", help="draw it at unit costs, .png, .svg or .pdf")
    _json(show)
    show.set_defaults(module="schedule", function="show")
    versus = _command(
        schedule_commands, "compare", "all schedules at equal ranks, micro-batches and work",
        "clustersim schedule compare -p 8 -m 32 -c 0.1"
    )
    versus.add_argument("-p", type=_positive, default=8, metavar="P", help="pipeline ranks, default %(default)s")
    versus.add_argument("-v", type=_positive, default=None, metavar="V", help="stages per rank, default each schedule's own")
    versus.add_argument("-m", type=_positive, default=32, metavar="M", help="micro-batches, default %(default)s")
    for option, default, what in (
        ("forward", "1", "forward"), ("backward", "2", "full backward"), ("input", "1", "input gradient"),
        ("weight", "1", "weight gradient"),
    ):  # fmt: skip
        text = f"seconds of a {what} of a whole rank and micro-batch, default %(default)s"
        versus.add_argument(f"--{option}", default=default, metavar="S", help=text)
    versus.add_argument("-c", dest="delay", default="0", metavar="S", help="one-way delay in seconds between ranks, default %(default)s")
    versus.add_argument("--schedules", metavar="A,B", help="only these, default all")
    versus.add_argument("-o", dest="output", metavar="FILE", help="draw them above one another, .png, .svg or .pdf")
    _json(versus)
    versus.set_defaults(module="schedule_compare", function="compare")

    check = _command(
        schedule_commands, "check", "whether a schedule file is complete, in order and free of deadlocks",
        "clustersim schedule check 1f1b.csv"
    )
    check.add_argument("file", metavar="FILE.csv", help="CSV of torch.distributed.pipelining: a row for each rank, its actions in order")
    _json(check)
    check.set_defaults(module="schedule_files", function="check")

    rewrite = _command(
        schedule_commands, "convert", "a schedule as a CSV file of torch.distributed.pipelining",
        "clustersim schedule convert 1f1b -p 4 -m 8 --communication -o 1f1b.csv",
    )  # fmt: skip
    rewrite.add_argument("source", metavar="NAME|IN.csv", help="a schedule by name, or a file")
    rewrite.add_argument("-p", type=_positive, metavar="P", help="pipeline ranks of a named schedule, default 4")
    rewrite.add_argument("-v", type=_positive, metavar="V", help="its stages per rank, default its own")
    rewrite.add_argument("-m", type=_positive, metavar="M", help="its micro-batches, default 8")
    rewrite.add_argument("--communication", action="store_true", help="with sends and receives; default compute alone")
    rewrite.add_argument("--sharding", action="store_true", help="and with UNSHARD, RESHARD and REDUCE_GRAD")
    rewrite.add_argument("-o", dest="output", required=True, metavar="OUT.csv", help="the file to write")
    _json(rewrite)
    rewrite.set_defaults(module="schedule_files", function="convert")
    return parser


def _command(commands: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=f"example: {example}")


def _experiment(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument("experiment", metavar="EXPERIMENT", help=_EXPERIMENT_HELP)
    _overrides(command, "default runs/EXPERIMENT")
    command.add_argument("--no-fold", action="store_true", help="simulate every rank, identical replicas too")
    _json(command)
    command.set_defaults(module="run", function=name)


def _overrides(command: argparse.ArgumentParser, folder: str) -> None:
    command.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE",
        help="override a key of the file, repeatable; KEY= removes it"
    )
    command.add_argument("-o", dest="output", default=None, metavar="DIR", help=f"output folder, {folder}")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 10**6:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1,000,000, got {text!r}")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"expected a percentage above 0 and at most 1000, got {text!r}")
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text!r}")
    return int(text)


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"clustersim {version('clustersim')}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
