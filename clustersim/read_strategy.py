"""The section ``strategy`` of an experiment file, and the schedule that it makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clustersim.document import Document, Section, shown
from clustersim.schedule import strategy as strategies
from clustersim.schedule import torch_csv
from clustersim.schedule.actions import Schedule
from clustersim.schedule.catalogue import ORDERS
from clustersim.schedule.placements import PLACEMENTS
from clustersim.schedule.strategy import OFFLOADS, PARTITIONS, RECEIVES, SENDS, TIMINGS, Strategy
from clustersim.schedule.validator import checked

OF_ONE_STRATEGY = ("placement", "order", "timing", "chunks", "group", "slices", "stages")
"""Keys that another strategy does not take over."""
STRATEGY_KEYS = (
    "name", *OF_ONE_STRATEGY, "partition", "partition_group", "overlap", "bucket", "prefetch", "scatter_gather", "async_tensor", "offload",
    "sends", "receives", "keep_recomputed",
)  # fmt: skip
FILE_SUFFIX = ".csv"


def read_strategy(top: Section, near: Path) -> tuple[Strategy, Schedule | None]:
    """The strategy, and its schedule where it is given as a file."""
    known = tuple(strategies.PRESETS)
    given = top.raw("strategy", expected=f"one of {', '.join(known)}, or a .csv file")
    name = given.get("name") if isinstance(given, dict) else given
    if isinstance(name, str) and name.endswith(FILE_SUFFIX):
        schedule = checked(torch_csv.load(near / name))
        own = Strategy(Path(name).stem, placement="file", order="file")
        if isinstance(given, str):
            return own, schedule
        section = top.section("strategy", tuple(key for key in STRATEGY_KEYS if key not in OF_ONE_STRATEGY or key == "timing"))
        return _with_options(section, own), schedule
    if isinstance(given, str):
        return strategies.PRESETS[top.choice("strategy", known)], None
    section = top.section("strategy", STRATEGY_KEYS)
    return _with_options(section, strategies.PRESETS[section.choice("name", known)]), None


def _with_options(section: Section, preset: Strategy) -> Strategy:
    if preset.order != "file":
        preset = replace(
            preset,
            placement=section.choice("placement", tuple(PLACEMENTS), preset.placement),
            order=section.choice("order", tuple(ORDERS), preset.order),
            chunks=section.integer("chunks", None, maximum=10**6),
            group=section.integer("group", None, maximum=10**6),
            slices=section.integer("slices", None, maximum=10**4),
            stages=_stages(section),
        )
    return replace(
        preset,
        timing=section.choice("timing", TIMINGS, preset.timing),
        partition=section.choice("partition", PARTITIONS, preset.partition),
        partition_group=_partition_group(section),
        overlap=section.boolean("overlap", preset.overlap),
        bucket_bytes=_bucket(section),
        prefetch=section.integer("prefetch", preset.prefetch, minimum=0, maximum=10**6),
        scatter_gather=section.boolean("scatter_gather", preset.scatter_gather),
        async_tensor=section.boolean("async_tensor", preset.async_tensor),
        offload=section.choice("offload", OFFLOADS, preset.offload),
        sends=section.choice("sends", SENDS, preset.sends),
        receives=section.choice("receives", RECEIVES, preset.receives),
        keep_recomputed=section.boolean("keep_recomputed", preset.keep_recomputed),
    )


def _stages(section: Section) -> tuple[int, ...] | None:
    given = section.raw("stages", None)
    if given is None:
        return None
    if not isinstance(given, list) or not given or not all(type(each) is int and each > 0 for each in given):
        section.error("stages", f"expected the layers of each stage, as [5, 6, 6, 5], got {shown(given)}")
    return tuple(given)


def _partition_group(section: Section) -> int | str | None:
    if section.raw("partition_group", None) == "node":
        return "node"
    return section.integer("partition_group", None, maximum=10**6)


def _bucket(section: Section) -> int | None:
    size = section.quantity("bucket", "size", None)
    return None if size is None else round(size)


def schedule_of(
    read: Document, strategy: Strategy, given: Schedule | None, layers: int, pipeline: int, micro_batches: int, steps: int
) -> Schedule:
    """The schedule of so many steps. InputError, with the place, when the numbers do not fit it, or the one ``given`` as a file."""
    if given is not None:
        _check_file(read, given, layers, pipeline, micro_batches)
        return strategies.repeated(given, steps)
    try:
        return strategies.build(strategy, layers, pipeline, micro_batches, steps)
    except ValueError as error:
        text = str(error)
        read.error("strategy.chunks" if "chunks" in text else "parallel.pipeline" if "layers" in text else "strategy", text)


def _check_file(read: Document, schedule: Schedule, layers: int, pipeline: int, micro_batches: int) -> None:
    """A schedule file fits the job."""
    if schedule.ranks != pipeline:
        read.error("parallel.pipeline", f"{pipeline} stages, but {schedule.name} has {schedule.ranks} ranks; allowed: {schedule.ranks}")
    if schedule.micro_batches != micro_batches:
        read.error(
            "batch.global", f"{micro_batches} micro-batches for each replica, but {schedule.name} has {schedule.micro_batches};"
            f" allowed: a global batch of {schedule.micro_batches} micro-batches a replica",
        )  # fmt: skip
    if layers % schedule.stages:
        read.error("model", f"{layers} layers do not divide into the {schedule.stages} stages of {schedule.name}")
