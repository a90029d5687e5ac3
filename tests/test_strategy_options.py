"""Sends and receives, split backwards, schedule files and schedules of other packages, through an experiment."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clustersim import experiment
from clustersim.cli import main
from clustersim.errors import DeadlockError, InputError
from clustersim.schedule.strategy import PRESETS
from clustersim.simulation import simulate
from tests.helpers import simulated, unit_cost

S = 10**12

# A message takes about half a second, and every forward and backward of a rank one.
SLOW = """
model: {{layers: 2, hidden: 1000, heads: 10}}
cluster: pcie-ethernet
parallel: {{pipeline: 2, order: [pipeline, tensor, data]}}
strategy: {{name: {name}, {options}}}
batch: {{global: {m}, micro: 1, sequence: 1000}}
cost: {{forward: 1 s, backward: 1 s}}
pcie: {{bandwidth: 4 MB/s, latency: 0 us}}
"""


def starts(run, rank, kind):
    ops = run.trace.ops
    return ops[(ops["rank"] == rank) & (ops["kind"] == kind)].sort_values("start_ps")["start_ps"].tolist()


def message_s(run):
    """Of the first message, which meets nothing."""
    first = run.trace.ops[run.trace.ops["kind"] == "send"].iloc[0]
    assert 0.4 < (first["end_ps"] - first["start_ps"]) / S < 0.8
    return (first["end_ps"] - first["start_ps"]) / S


def test_a_blocking_send_holds_up_what_follows():
    free = simulated(SLOW.format(name="gpipe", m=3, options="sends: asynchronous"))
    message = message_s(free)
    assert starts(free, 0, "forward") == [0, 1 * S, 2 * S]
    blocked = simulated(SLOW.format(name="gpipe", m=3, options="sends: blocking"))
    assert starts(blocked, 0, "forward") == pytest.approx([0, (1 + message) * S, 2 * (1 + message) * S], abs=3)


def test_a_late_receive_is_posted_when_the_rank_has_nothing_left_to_do_before():
    early = simulated(SLOW.format(name="gpipe", m=2, options="receives: early"))
    late = simulated(SLOW.format(name="gpipe", m=2, options="receives: late"))
    message = message_s(early)
    # Early, the second message is there before the first forward ends. Late, it begins only then.
    assert starts(early, 1, "forward") == pytest.approx([(1 + message) * S, (2 + message) * S], abs=3)
    assert starts(late, 1, "forward") == pytest.approx([(1 + message) * S, (2 + 2 * message) * S], abs=3)


def test_sends_and_receives_that_wait_for_each_other_are_reported():
    with pytest.raises(DeadlockError, match="waits"):
        simulated(SLOW.format(name="1f1b", m=4, options="sends: blocking, receives: late"))


@pytest.mark.parametrize("name", ["zb-v", "dualpipe-v", "hanayo", "interleaved-1f1b", "mpp"])
def test_late_receives_stand_in_nobodys_way(name):
    # Where a rank uses messages in another order than its peer sends them, each is posted before those behind it are needed.
    run = simulated(SLOW.format(name=name, m=8, options="receives: late").replace("layers: 2", "layers: 4"))
    early = simulated(SLOW.format(name=name, m=8, options="receives: early").replace("layers: 2", "layers: 4"))
    assert run.trace.makespan_ps >= early.trace.makespan_ps


def test_what_is_kept_for_the_second_part_of_a_backward_is_held():
    text = RECOMPUTED.replace("{{layers: 4, hidden: 256", "{{layers: 4, hidden: 1024")
    again, kept = (simulated(text.format(recompute="full", options=options)) for options in ("", ", keep_recomputed: true"))
    assert kept.summary["step_time_s"] < again.summary["step_time_s"]
    assert kept.summary["peak_memory_bytes"] > again.summary["peak_memory_bytes"]


def test_fixed_costs_of_a_split_backward_default_to_halves():
    run = unit_cost(4, 4, 8, "zb-h1", forward=1, backward=2)
    assert run.trace.makespan_ps == 27 * S
    run = unit_cost(4, 4, 8, "zb-h1", forward=3, backward=4, cost=", input: 3 s, weight: 1 s")
    assert run.trace.makespan_ps == (8 * 7 + 3 * (3 + 3 - 1)) * S


RECOMPUTED = """
model: {{layers: 4, hidden: 256, heads: 4, vocab: 1000}}
cluster: ideal
parallel: {{pipeline: 2}}
strategy: {{name: zb-h1{options}}}
batch: {{global: 4, micro: 1, sequence: 128}}
recompute: {recompute}
"""


def test_a_split_backward_recomputes_twice_unless_it_is_kept():
    def recomputed(recompute, options=""):
        ops = simulated(RECOMPUTED.format(recompute=recompute, options=options)).trace.ops
        return (ops["kind"] == "recompute").sum(), ops["flops"].sum()

    passes = 4 * 4  # layers, micro-batches
    none, full, kept = recomputed("none"), recomputed("full"), recomputed("full", ", keep_recomputed: true")
    assert (none[0], full[0], kept[0]) == (0, 2 * passes, passes)
    forward = 24 * 128 * 256**2 + 4 * 128**2 * 256  # of one layer and sequence
    assert full[1] - none[1] == pytest.approx(2 * passes * forward) and kept[1] - none[1] == pytest.approx(passes * forward)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_schedule_runs_with_traffic_on_real_links(name):
    run = simulated(
        f"""
model: {{layers: 8, hidden: 512, heads: 8}}
cluster: dgx-a100
parallel: {{pipeline: 2, data: 2, tensor: 2}}
strategy: {{name: {name}, partition: parameters}}
batch: {{global: 16, micro: 1, sequence: 256}}
"""
    )
    ops, copies = run.trace.ops, 2 if name in ("dualpipe", "chimera") else 1
    per_rank = run.summary["per_rank"]
    assert run.summary["step_time_s"] > 0
    for rank in ops["rank"].unique():
        mine = ops[ops["rank"] == rank]
        forwards = mine[(mine["kind"] == "forward") & ~mine["name"].astype(str).str.endswith("head")]
        # Four of eight layers for all micro-batches, or with two copies of the model eight for half of them.
        assert len(forwards[["layer", "micro_batch"]].drop_duplicates()) == 4 * 8 * run.experiment.schedule.slices
        gradients = mine[mine["kind"] == "reduce"]["layer"].nunique()
        assert gradients == 4 * copies
    assert per_rank["idle_s"]["min"] >= 0


def written(tmp_path, csv, **more):
    (tmp_path / "mine.csv").write_text(csv)
    values = {"pipeline": 2, "batch": 2, "layers": 2, "strategy": "mine.csv"} | more
    (tmp_path / "job.yaml").write_text(
        f"model: {{layers: {values['layers']}, hidden: 64, heads: 4}}\ncluster: ideal\nparallel: {{pipeline: {values['pipeline']}}}\n"
        f"strategy: {values['strategy']}\nbatch: {{global: {values['batch']}, micro: 1, sequence: 16}}\n"
        "cost: {forward: 1 s, backward: 2 s}\n"
    )
    return tmp_path / "job.yaml"


ONE_F_ONE_B = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


def test_an_experiment_may_name_a_schedule_file(tmp_path):
    run = simulate(experiment.load(written(tmp_path, ONE_F_ONE_B)))
    assert run.trace.makespan_ps == 9 * S == unit_cost(2, 2, 2, "1f1b", backward=2).trace.makespan_ps
    assert run.title.startswith("mine: ")
    run = simulate(experiment.load(written(tmp_path, ONE_F_ONE_B, strategy="{name: mine.csv, overlap: false}", layers=4)))
    assert run.trace.makespan_ps == 18 * S


def test_the_examples_of_the_folder_of_schedules(tmp_path, monkeypatch, capsys):
    folder = Path(__file__).parents[1] / "schedules"
    text = (folder / "README.md").read_text()
    assert "".join(f"    {line}\n" for line in (folder / "two-ranks.csv").read_text().splitlines()) in text
    (tmp_path / "two-ranks.csv").write_text((folder / "two-ranks.csv").read_text())
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^    (clustersim .*)$", text, flags=re.MULTILINE):
        assert main(shlex.split(line, comments=True)[1:]) == 0, line
        assert capsys.readouterr().out
    assert (tmp_path / "zb-v.csv").read_text().count("SEND_F") == 4 * 2 * 6
    for name in PRESETS:
        assert f"| `{name}` |" in text
    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1]
    done = plugin(tmp_path, "gpipe-reversed = other_package:ORDER", code)
    assert done.returncode == 0 and done.stdout.index("0B1") < done.stdout.index("0B0")


@pytest.mark.parametrize(
    ("csv", "more", "text"),
    [
        (ONE_F_ONE_B, {"pipeline": 1}, "job.yaml:3: parallel.pipeline: 1 stages, but mine has 2 ranks; allowed: 2"),
        (ONE_F_ONE_B, {"batch": 4}, "job.yaml:5: batch.global: 4 micro-batches for each replica, but mine has 2"),
        (ONE_F_ONE_B, {"layers": 3}, "job.yaml:1: model: 3 layers do not divide into the 2 stages of mine"),
        (ONE_F_ONE_B, {"strategy": "{name: mine.csv, chunks: 2}"}, "job.yaml:4: strategy.chunks: unknown key"),
        (ONE_F_ONE_B, {"strategy": "other.csv"}, "other.csv: no such file"),
        ("0F0,0F1,0B0,0B1\n1B0,1F0,1F1,1B1\n", {}, "mine.csv:2, column 1: 1B0:"),
        ("0F0,0X1\n", {}, "mine.csv:1, column 2: "),
    ],
)
def test_a_schedule_file_that_does_not_fit_is_refused(tmp_path, csv, more, text):
    with pytest.raises(InputError) as caught:
        experiment.load(written(tmp_path, csv, **more))
    assert text in str(caught.value)


PLUGIN = """
from clustersim.schedule.actions import Action
from clustersim.schedule.order import Order


def backwards_last(placement, m):
    return tuple((*(Action("F", s, i) for i in range(m)), *(Action("B", s, i) for i in reversed(range(m)))) for s in placement)


ORDER = Order(backwards_last, "an example", "(m+p-1)(F+B)", "m")
"""


def plugin(tmp_path, entry, code=PLUGIN, command=("show", "gpipe-reversed", "-p", "2", "-m", "2", "--json")):
    (tmp_path / "other_package.py").write_text(code)
    (tmp_path / "other-1.0.dist-info").mkdir()
    (tmp_path / "other-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (tmp_path / "other-1.0.dist-info" / "entry_points.txt").write_text(f"[clustersim.schedules]\n{entry}\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run([sys.executable, "-m", "clustersim", "schedule", *command], capture_output=True, text=True, env=environment,
                          check=False)


def test_another_package_may_register_a_schedule(tmp_path):
    done = plugin(tmp_path, "gpipe-reversed = other_package:ORDER")
    assert done.returncode == 0, done.stderr
    assert '"0F0",' in done.stdout and done.stdout.index("0B1") < done.stdout.index("0B0")


BAD = """
from clustersim.schedule.actions import Action
from clustersim.schedule.order import Order

ORDER = Order(lambda placement, m: {body}, "an example", "", "")
"""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("tuple((Action('F', s, 0),) for s in placement)", "rank 0"),  # no backward
        ("tuple((Action('B', s, 0), Action('F', s, 0)) for s in placement)", "rank 0, position"),
        ("tuple((Action('F', s, 0), Action('I', s, 0)) for s in placement)", "rank 0"),
        ("tuple((Action('F', s, 0), Action('X', s, 0)) for s in placement)", "rank 0"),
        ("None", "fails: TypeError"),
        ("{}[0]", "fails: KeyError"),
    ],
)
def test_an_order_of_another_package_that_is_wrong_is_refused_and_leaves_the_others_alone(tmp_path, body, text):
    done = plugin(tmp_path, "gpipe-reversed = other_package:ORDER", BAD.replace("{body}", body),
                  ("show", "gpipe-reversed", "-p", "2", "-m", "1"))
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1, done.stderr
    names = ["compare", "-p", "2", "-m", "1", "--schedules", "gpipe-reversed,gpipe", "--json"]
    done = subprocess.run([sys.executable, "-m", "clustersim", "schedule", *names], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    rows = {row["name"]: row for row in json.loads(done.stdout)["schedules"]}
    assert text in rows["gpipe-reversed"]["error"] and rows["gpipe"]["makespan_s"] == 6


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("gpipe = other_package:ORDER", "there is a schedule gpipe already"),
        ("mine = other_package:NOTHING", "cannot be loaded: AttributeError"),
        ("mine = other_package:backwards_last", "expected a clustersim.schedule.order.Order, got function"),
    ],
)
def test_a_schedule_of_another_package_that_cannot_be_used_is_named(tmp_path, entry, text):
    done = plugin(tmp_path, entry)
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1
