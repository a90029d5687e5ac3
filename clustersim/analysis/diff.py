"""Two analyses side by side: what changed, in words and numbers. The parts of the change add up to that of the window."""

from __future__ import annotations

from typing import Any

from clustersim.analysis.answer import Analysis
from clustersim.analysis.answer_text import CAUSE_WORDS, family_words, limits, percent
from clustersim.units import PS_PER_S, time_text


def parts(analysis: Analysis) -> dict[str, float]:
    """Where a step (or the window) goes, mean over ranks, in ps: compute, each kind of exposed communication, each cause of idle."""
    found = {"compute": analysis.mean("compute_ps")}
    found.update({f"exposed {family_words(analysis, name)}": time for name, time in analysis.exposed().items()})
    found.update({f"idle, {CAUSE_WORDS[name]}": time for name, time in analysis.idle().items()})
    return found


def changes(a: Analysis, b: Analysis) -> list[tuple[str, float, float]]:
    """Part, in A and in B, in ps; the greatest change first. Parts that neither has are left out."""
    before, after = parts(a), parts(b)
    rows = [(name, before.get(name, 0.0), after.get(name, 0.0)) for name in dict.fromkeys([*before, *after])]
    return sorted([row for row in rows if row[1] or row[2]], key=lambda row: (-abs(row[2] - row[1]), row[0]))


def difference(a: Analysis, b: Analysis) -> str:
    """One sentence: how much faster or slower B is, and the change that weighs most."""
    before, after = a.step_ps, b.step_ps
    times = f"{time_text(before / PS_PER_S)} to {time_text(after / PS_PER_S)}"
    rows = changes(a, b)
    if a.facts.given or b.facts.given:
        head = f"the windows are {time_text(before / PS_PER_S)} of A and {time_text(after / PS_PER_S)} of B"
    elif before == after:
        head = f"B takes as long as A, {time_text(after / PS_PER_S)}"
    elif before and after:
        head = f"B is {max(before, after) / min(before, after):.3g} times as {'fast' if after < before else 'slow'} as A ({times})"
    else:
        head = f"from {times}"
    if not rows or rows[0][1] == rows[0][2]:
        return f"{head}; no part of it changed"
    name, one, other = rows[0]
    share = f", {percent(abs(other - one) / before)} of A" if before else ""
    return f"{head}; most of all {name} went from {time_text(one / PS_PER_S)} to {time_text(other / PS_PER_S)}{share}"


def difference_document(a: Analysis, b: Analysis) -> dict[str, Any]:
    """The comparison for JSON, times in seconds."""
    return {
        "difference": difference(a, b),
        "window_s": [a.step_ps / PS_PER_S, b.step_ps / PS_PER_S],
        "steps": [a.facts.steps, b.facts.steps],
        "limits": [limits(a), limits(b)],
        "changes": [
            {"part": name, "a_s": one / PS_PER_S, "b_s": other / PS_PER_S, "change_s": (other - one) / PS_PER_S}
            for name, one, other in changes(a, b)
        ],
    }
