"""The command line: arguments in, one call, results out. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from clustersim.errors import InputError

_EXPERIMENT_HELP = "experiment file (YAML), or the name of a shipped one"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0 done, 2 wrong input."""
    options = _parser().parse_args(arguments)
    try:
        module = importlib.import_module(f"clustersim.commands.{options.module}")
        getattr(module, options.function)(options)
        sys.stdout.flush()
    except InputError as error:
        print(f"clustersim: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader went away, as `| head` does; keep the interpreter from complaining about it on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("clustersim: interrupted", file=sys.stderr)
        return 130
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.exit(2, f"clustersim: {message}; see `{self.prog} --help`\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="clustersim", description="Simulate GPU clusters that train transformers.")
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    run = _command(commands, "run", "simulate one step", "clustersim run gpt3-175b --set strategy.name=standard -o runs/gpt3")
    _experiment(run, "run")
    run.add_argument("--no-plot", action="store_true", help="do not draw gantt.png")

    compare = _command(
        commands, "compare", "the same work under several strategies", "clustersim compare gpt3-175b --strategies standard,lga,mpp"
    )
    _experiment(compare, "compare")
    compare.add_argument("--strategies", default="standard,lga,mpp", metavar="A,B", help="names, default %(default)s")

    gantt = _command(
        commands, "gantt", "the chart of a run", "clustersim gantt runs/gpt3-175b -o step.svg --ranks 0,128 --from 10s --to 12s"
    )
    gantt.add_argument("trace", metavar="TRACE", help="a run folder")
    gantt.add_argument("-o", dest="output", default="gantt.png", metavar="FILE", help=".png, .svg or .pdf, default %(default)s")
    gantt.add_argument("--ranks", metavar="0-3,8", help="only these ranks")
    gantt.add_argument("--from", dest="start", metavar="TIME", help="begin of the window, for example 1.5s")
    gantt.add_argument("--to", dest="end", metavar="TIME", help="end of the window")
    _json(gantt)
    gantt.set_defaults(module="gantt", function="gantt")

    topology = commands.add_parser("topology", help="clusters: show, check")
    topology_commands = topology.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, summary in (("show", "a cluster as a table"), ("check", "whether a topology file is right")):
        command = _command(topology_commands, name, summary, f"clustersim topology {name} dgx-a100")
        command.add_argument("cluster", metavar="CLUSTER", help="a preset or a topology file")
        if name == "show":
            command.add_argument("--nodes", type=_positive, default=None, metavar="N", help="number of nodes, default 1")
        _json(command)
        command.set_defaults(module="topology", function=name)

    schedule = commands.add_parser("schedule", help="schedules: show")
    schedule_commands = schedule.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    show = _command(schedule_commands, "show", "the actions of each rank", "clustersim schedule show mpp -p 4 -v 2 -m 8")
    show.add_argument("name", metavar="NAME", help="standard, lga or mpp")
    show.add_argument("-p", type=_positive, default=4, metavar="P", help="pipeline ranks, default %(default)s")
    show.add_argument("-v", type=_positive, default=None, metavar="V", help="stages per rank, default 1 (standard) or 2")
    show.add_argument("-m", type=_positive, default=8, metavar="M", help="micro-batches, default %(default)s")
    _json(show)
    show.set_defaults(module="schedule", function="show")
    return parser


def _command(commands, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=f"example: {example}")


def _experiment(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument("experiment", metavar="EXPERIMENT", help=_EXPERIMENT_HELP)
    command.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="override a key of the file, repeatable"
    )
    command.add_argument("-o", dest="output", default=None, metavar="DIR", help="output folder, default runs/EXPERIMENT")
    command.add_argument("--no-fold", action="store_true", help="simulate every rank, identical replicas too")
    _json(command)
    command.set_defaults(module="run", function=name)


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


class _Version(argparse.Action):
    def __init__(self, option_strings, dest) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        from importlib.metadata import version

        print(f"clustersim {version('clustersim')}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
