"""``clustersim gantt``: charts of a trace over time."""

from __future__ import annotations

import argparse
from pathlib import Path

from clustersim import units
from clustersim.commands.arguments import rank_numbers
from clustersim.commands.output import print_files, print_json
from clustersim.commands.reading import View, headline, named, read, view_of, with_ranks
from clustersim.commands.report import PAGES, report
from clustersim.errors import InputError
from clustersim.plots.files import checked
from clustersim.trace.run import Run


def gantt(options: argparse.Namespace) -> None:
    """Draw what runs when (``gantt``), what the ranks do (``utilization``), or how busy the links are (``links``)."""
    if Path(options.output).suffix.lower() in PAGES and options.chart == "gantt":
        report(options)  # its chart can be zoomed, and has the critical path
        return
    output = checked(options.output)
    if options.chart != "gantt":
        for given, name in ((options.ranks is not None, "--ranks"), (options.critical_path, "--critical-path")):
            if given:
                raise InputError(f"{name}: not with --chart {options.chart}, which is about all ranks; allowed: --chart gantt")
    with named(options.trace, output):
        source = read(options.trace)
        view = view_of(source, options.start, options.end)
        _CHARTS[options.chart](source.run, view, output, options)
    if options.json:
        print_json({"files": [str(output)]})
    else:
        print_files([output])


def _gantt(run: Run, view: View, output: Path, options: argparse.Namespace) -> None:
    from clustersim.plots.critical import path_of
    from clustersim.plots.gantt import gantt as draw

    ranks = None if options.ranks is None else sorted(set(rank_numbers("--ranks", options.ranks)))
    data = run.data if ranks is None else with_ranks(run.data, ranks)
    trace = data.trace
    begin_s, end_s = (None, None) if view.window is None else (time / units.PS_PER_S for time in view.window)
    draw(
        trace.ops,
        output,
        title=headline(run, view),
        memory=trace.memory,
        capacity_bytes=run.gpu_memory_bytes,
        ranks=ranks,
        start_s=begin_s,
        end_s=end_s,
        copies=run.stands_for if data is run.data else None,
        critical_path=path_of(trace) if options.critical_path else None,
    )


def _utilization(run: Run, view: View, output: Path, options: argparse.Namespace) -> None:
    from clustersim.analysis.activity import activity
    from clustersim.plots.utilization import BINS, utilization_chart

    trace = run.data.trace
    edges, shares = activity(trace, view.window, bins=BINS, facts=view.facts)
    utilization_chart(edges, shares, output, title=headline(run, view), ranks=f"{run.ranks:,} {'rank' if run.ranks == 1 else 'ranks'}")


def _links(run: Run, view: View, output: Path, options: argparse.Namespace) -> None:
    from clustersim.plots.links import links_chart

    window = (0, run.data.trace.makespan_ps) if view.window is None else view.window
    links_chart(run.data.trace.links, run.data.link_totals, window, output, title=headline(run, view))


_CHARTS = {"gantt": _gantt, "utilization": _utilization, "links": _links}
