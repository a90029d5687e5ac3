"""``clustersim report``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from clustersim.analysis.activity import activity
from clustersim.analysis.answer import analyze
from clustersim.commands.arguments import rank_numbers
from clustersim.commands.output import print_files, print_json
from clustersim.commands.reading import named, read, view_of
from clustersim.errors import InputError
from clustersim.plots.utilization import BINS
from clustersim.reports.page import page
from clustersim.reports.timeline import timeline
from clustersim.trace.files import write_whole

PAGES = (".html", ".htm")


def report(options: argparse.Namespace) -> None:
    """Write one page about a run folder, or about profiler files."""
    output = Path(options.output)
    if output.suffix.lower() not in PAGES:
        raise InputError(f"-o {output}: a report is a page; allowed: a name that ends in .html")
    ranks = None if options.ranks is None else sorted(set(rank_numbers("--ranks", options.ranks)))
    with named(options.trace, output):
        source = read(options.trace)
        run, view = source.run, view_of(source, options.start, options.end)
        facts = replace(view.facts, steps=1)  # times of the whole window, not of its mean step
        analysis = analyze(run.data.trace, view.window, run.data.link_totals, facts)
        chart = timeline(run.data.trace.ops, analysis, ranks, copies=run.stands_for)
        text = page(run, analysis, chart, activity(run.data.trace, analysis.window, bins=BINS, facts=facts))
    write_whole(output, lambda path: path.write_text(text, encoding="utf-8", errors="replace"))
    if options.json:
        print_json({"files": [str(output)]})
    else:
        print_files([output])
