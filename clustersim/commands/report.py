"""``clustersim report``."""

from __future__ import annotations

import argparse
from pathlib import Path

from clustersim.analysis.activity import activity
from clustersim.analysis.answer import analyze
from clustersim.commands.arguments import rank_numbers, time_window
from clustersim.commands.output import print_files, print_json
from clustersim.commands.reading import facts_of, read
from clustersim.errors import InputError
from clustersim.plots.utilization import BINS
from clustersim.reports.page import page
from clustersim.reports.timeline import timeline
from clustersim.trace.files import check_writable, write_whole

_SUFFIXES = (".html", ".htm")


def report(options: argparse.Namespace) -> None:
    """Write one page about a run folder, or about profiler files."""
    output = Path(options.output)
    if output.suffix.lower() not in _SUFFIXES:
        raise InputError(f"-o {output}: a report is a page; allowed: a name that ends in .html")
    run = read(options.trace)
    trace = run.data.trace
    ranks = None if options.ranks is None else sorted(set(rank_numbers("--ranks", options.ranks)))
    given = time_window(options.start, options.end, trace.makespan_ps)
    try:
        window, facts = facts_of(run, given)
        analysis = analyze(trace, window, run.data.link_totals, facts)
        chart = timeline(trace.ops, analysis, ranks, copies=run.stands_for)
        text = page(run, analysis, chart, activity(trace, analysis.window, bins=BINS, facts=facts))
    except InputError as error:
        raise InputError(f"{', '.join(options.trace[:3])}: {error}") from None
    check_writable(output.parent)
    write_whole(output, lambda path: path.write_text(text, encoding="utf-8", errors="replace"))
    if options.json:
        print_json({"files": [str(output)]})
    else:
        print_files([output])
