"""Bad input ends in one line with the place, what is wrong and what is allowed; exit status 2; nothing written."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from clustersim import experiment
from tests.conftest import SMALL

MODEL, CLUSTER, PARALLEL, STRATEGY, BATCH = (f"e.yaml:{line}: " for line in range(1, 6))
ADDED = "e.yaml:6: "
RUN = ("run", "e.yaml", "--no-plot", "-o", "out")


def assert_refused(result, place, *words):
    assert result.status == 2
    assert result.out == ""
    assert result.err.endswith("\n") and result.err.count("\n") == 1 and result.err[:-1].isprintable()
    assert result.err.startswith(f"clustersim: {place}")
    for word in words:
        assert word in result.err
    assert not os.path.exists("out")


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        # Unknown keys, at every level
        ("strategy:", "stratgy:", STRATEGY, ("stratgy: unknown key", "'strategy'", "allowed: model, cluster")),
        ("data: 2", "dta: 2", PARALLEL, ("parallel.dta: unknown key", "'data'")),
        ("name: mpp", "name: mpp, chunk: 2", STRATEGY, ("strategy.chunk: unknown key", "'chunks'")),
        ("micro: 1", "micros: 1", BATCH, ("batch.micros: unknown key", "'micro'")),
        ("heads: 4", "heads: 4, layer: 3", MODEL, ("model.layer: unknown key", "'layers'")),
        # Degrees and sizes that do not go together
        ("layers: 8", "layers: 7", PARALLEL, ("7 layers do not divide into 2 pipeline stages", "allowed for pipeline: 1, 7")),
        ("pipeline: 2", "pipeline: 16", PARALLEL, ("8 layers do not divide into 16", "1, 2, 4, 8")),
        ("name: mpp", "name: mpp, chunks: 3", STRATEGY, ("4 layers per rank do not divide into 3 chunks", "1, 2, 4")),
        ("name: mpp", "name: standard, chunks: 2", STRATEGY, ("one stage per rank", "chunks: 1")),
        ("global: 16", "global: 15", BATCH, ("batch.global: 15 sequences", "allowed: multiples of 2")),
        ("micro: 1", "micro: 3", BATCH, ("16 sequences do not divide", "multiples of 6")),
        ("tensor: 2", "tensor: 8", PARALLEL, ("parallel.tensor: 8 ranks do not fit in a node", "at most its 4 GPUs")),
        ("tensor: 2", "tensor: 3", PARALLEL, ("parallel.tensor: 3 does not divide the 4 heads", "allowed: 1, 2, 4")),
        ("heads: 4", "heads: 5", MODEL, ("model.heads", "divisor of the hidden size (64)")),
        ("data: 2", "data: 100000", PARALLEL, ("= 400,000 GPUs", "at most 200,000")),
        ("data: 2", "data: 2, expert: 4", PARALLEL, ("parallel.expert: 4 does not divide the 2 data ranks",)),
        # Whole numbers
        ("data: 2", "data: 0", PARALLEL, ("parallel.data: expected a whole number from 1 to 1,000,000, got 0",)),
        ("data: 2", "data: '2'", PARALLEL, ("expected a whole number, got '2'",)),
        ("data: 2", "data: two", PARALLEL, ("expected a whole number, got 'two'",)),
        ("data: 2", "data: 2.5", PARALLEL, ("expected a whole number, got 2.5",)),
        ("data: 2", "data: yes", PARALLEL, ("expected a whole number, got True",)),
        ("global: 16", "global: .inf", BATCH, ("expected a whole number, got inf",)),
        ("global: 16", "global: -16", BATCH, ("from 1 to 1,000,000,000, got -16",)),
        ("layers: 8", "layers: 1000000000", MODEL, ("model.layers: expected a whole number from 1 to 100,000",)),
        # Names
        ("name: mpp", "name: mp", STRATEGY, ("strategy.name: unknown value 'mp'", "'mpp'", "allowed: standard, lga, mpp")),
        ("name: mpp", "name: 5", STRATEGY, ("strategy.name: expected one of standard, lga, mpp, 1f1b,", "pipedream-2bw, got 5",)),
        ("{name: mpp}", "[mpp]", STRATEGY, ("expected a mapping with keys name", "got a list")),
        ("pcie-ethernet", "pcie-ethernt", CLUSTER, ("unknown cluster", "'pcie-ethernet'", "or a path to a file")),
        ("pcie-ethernet", "./none.yaml", CLUSTER, ("no such cluster file: ./none.yaml",)),
        ("pcie-ethernet", "/tmp", CLUSTER, ("/tmp is a folder, not a file",)),
        ("pcie-ethernet", r'"a\nb\e[31m"', CLUSTER, ("printable characters",)),
        ("pcie-ethernet", "5", CLUSTER, ("expected the name of a cluster or a path to a topology file, got 5",)),
        ("{layers: 8, hidden: 64, heads: 4}", "gpt3-175", MODEL, ("unknown model 'gpt3-175'", "'gpt3-175b'")),
        ("{layers: 8, hidden: 64, heads: 4}", "none.json", MODEL, ("no such model file",)),
        ("{layers: 8, hidden: 64, heads: 4}", "[1]", MODEL, ("expected the name of a model",)),
        ("heads: 4", r'heads: 4, name: "x\e[31m"', MODEL, ("model.name: expected at most 1000 printable characters",)),
        # Missing
        ("cluster: pcie-ethernet\n", "", "e.yaml: ", ("key 'cluster' is missing; expected the name of a cluster",)),
        ("strategy: {name: mpp}", "", "e.yaml: ", ("key 'strategy' is missing; expected one of standard, lga, mpp",)),
        (", sequence: 128", "", BATCH, ("batch.sequence: missing", "expected a number of tokens")),
        ("global: 16, ", "", BATCH, ("key 'global' is missing",)),
        # Not YAML, or not this YAML
        ("heads: 4}", "heads: 4", "e.yaml:2: ", ("not valid YAML",)),
        ("micro: 1", "micro: 1, micro: 2", BATCH, ("batch.micro: the key is given twice",)),
        ("tensor: 2", "tensor: *x", PARALLEL, ("aliases",)),
        ("global: 16", "global: 1:20", BATCH, ("expected a whole number, got '1:20'",)),
        # Too much work
        ("global: 16", "global: 1000000000", BATCH, ("8 layers x 500,000,000 micro-batches", "at most 200,000", "batch.micro")),
    ],
)
def test_a_wrong_line(small, cli, old, new, place, words):
    assert SMALL.count(old) == 1
    small.write_text(SMALL.replace(old, new))
    assert_refused(cli(*RUN), place, *words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("network: {bandwith: 1 Gb/s}", ("network.bandwith: unknown key", "'bandwidth'")),
        ("network: {bandwidth: 25}", ("network.bandwidth: 25 has no unit", "200 Gb/s or 25 GB/s")),
        ("network: {bandwidth: '25'}", ("25 has no unit",)),
        ("network: {bandwidth: 0 Gb/s}", ("network.bandwidth: must be more than zero, got 0 Gb/s",)),
        ("network: {bandwidth: -1 Gb/s}", ("must be more than zero, got -1 Gb/s",)),
        ("network: {bandwidth: 1e400 Gb/s}", ("out of range", "at most 1 EB/s")),
        ("network: {bandwidth: .nan}", ("'nan' is not a number with a unit",)),
        ("network: {bandwidth: .inf}", ("'inf' is not a number with a unit",)),
        ("network: {bandwidth: true}", ("expected a quantity with a unit",)),
        ("network: {latency: -1 us}", ("network.latency: must be zero or more, got -1 us",)),
        ("network: {latency: 0}", ("0 has no unit", "5 us")),
        ("network: {latency: 1e20 s}", ("out of range", "at most 1000 h")),
        ("network: {efficiency: 2}", ("network.efficiency: expected a number above 0 and at most 1, got 2",)),
        ("network: {efficiency: .nan}", ("above 0 and at most 1, got nan",)),
        ("network: 5 Gb/s", ("expected a mapping with keys bandwidth, latency, efficiency, routing, got '5 Gb/s'",)),
        ("nvlink: {bandwidth: 1 GB/s}", ("has no nvlink links to change; it has pcie, network",)),
        ("cost: {forward: -1 s, backward: 3 s}", ("cost.forward: must be zero or more, got -1 s",)),
        ("cost: {forward: 1, backward: 3}", ("cost.forward: 1 has no unit",)),
        ("cost: {forward: 1 s}", ("cost: key 'backward' is missing; expected a quantity with a unit",)),
        ("cost: {forward: 1 s, backwards: 3 s}", ("cost.backwards: unknown key", "'backward'")),
        ("cost: peek", ("cost: no such file: peek; allowed: peak, a path",)),
        ("steps: 0", ("steps: expected a whole number from 1",)),
        ("precision: bf61", ("precision: unknown value 'bf61'", "'bf16'")),
        ("precision: 16", ("precision: expected one of", "got 16")),
        ("recompute: ful", ("recompute: unknown value 'ful'", "allowed: none, selective, full")),
        ("nodes: 2.0", ("nodes: expected a whole number, got 2.0",)),
        ("nodes: 1\nnodes: 2", ("nodes: the key is given twice",)),
        ("\tnodes: 2", (r"character '\t'",)),
        ('"a\\n\\e[31mb": 1', (r"a \x1b[31mb: unknown key",)),
        ("模型: 1", ("模型: unknown key",)),
        ("x" * 100 + ": 1", ("x" * 57 + "...: unknown key",)),
        ("7: 1", ("7: a key must be a name",)),
        ("<<: {nodes: 2}", ("<<: unknown key",)),
    ],
)
def test_a_wrong_line_at_the_end(small, cli, line, words):
    small.write_text(f"{SMALL}{line}\n", encoding="utf-8")
    place = "e.yaml:7: " if line.startswith("nodes: 1\n") else ADDED
    assert_refused(cli(*RUN), place, *words)


def test_degrees_that_are_not_the_number_of_gpus(small, cli):
    small.write_text(f"{SMALL}nodes: 3\n")
    assert_refused(cli(*RUN), PARALLEL, "pipeline 2 x data 2 x tensor 2 = 8 GPUs", "nodes 3 x 4 GPUs = 12", "allowed: degrees")


@pytest.mark.parametrize(
    ("assignments", "place", "words"),
    [
        (["nodes"], "--set nodes: ", ("expected path.to.key=value, for example --set strategy.name=mpp",)),
        (["=3"], "--set =3: ", ("expected path.to.key=value",)),
        (["nodes=["], "--set nodes=[: ", ("not valid YAML",)),
        (["strateg.name=mpp"], "--set strateg.name=mpp: ", ("strateg: unknown key", "'strategy'")),
        (["strategy.nam=mpp"], "--set strategy.nam=mpp: ", ("strategy.nam: unknown key", "'name'")),
        (["model.layers.x=1"], "--set model.layers.x=1: ", ("model.layers is 8, not a mapping that can hold x",)),
        (["parallel.order=[tensor, data]"], "--set parallel.order=[tensor, data]: ", ("each of tensor, context, data, pipeline once",)),
        (["parallel.order=[data]", "parallel.order.0=tensor"], "--set parallel.order.0=tensor: ", ("is a list, not a mapping",)),
        (["network.bandwidth=100"], "--set network.bandwidth=100: ", ("100 has no unit",)),
        (["batch.global=32", "batch.global=x"], "--set batch.global=x: ", ("expected a whole number, got 'x'",)),
        (["batch={global: 1, global: 2}"], "--set batch={global: 1, global: 2}: ", ("given twice",)),
        (["batch.global=!!python/name:os.system"], "--set batch.global", ("tags",)),
        (["batch.global=\x1b[31m"], r"--set batch.global=\x1b[31m: ", ("not valid YAML",)),
        (["a\nb=1"], "--set a b=1: ", ("unknown key",)),
        (["y" * 100_000 + "=1"], "--set yyy", ("unknown key",)),
        (["model.layers=100000"], BATCH, ("100,000 layers x 8 micro-batches = 800,000 passes",)),
    ],
)
def test_a_wrong_override(small, cli, assignments, place, words):
    result = cli(*RUN, *(part for assignment in assignments for part in ("--set", assignment)))
    assert_refused(result, place, *words)
    assert len(result.err) < 500


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.yaml", ("no such experiment file: none.yaml", "allowed: gpt3-175b")),
        ("./none", ("no such experiment file: ./none",)),
        ("gpt3-175", ("unknown experiment 'gpt3-175'; did you mean 'gpt3-175b'?",)),
        ("", ("unknown experiment ''",)),
        ("folder.yaml", ("folder.yaml is a folder, not a file",)),
        ("/", ("/ is a folder, not a file",)),
        ("pipe.yaml", ("pipe.yaml is a device or pipe, not a file",)),
        ("loop.yaml", ("no such experiment file: loop.yaml",)),
        ("n" * 5000, ("unknown experiment 'nnn",)),
        ("n/" * 5000, ("no such experiment file: n/n/",)),
        ("a\nb", (r"unknown experiment 'a\nb'",)),
        ("a\x1b[31m.yaml", (r"a\x1b[31m.yaml",)),
        ("\udcff.yaml", (r"\udcff.yaml",)),
        ("a\0b.yaml", (r"a\x00b.yaml",)),
    ],
)
def test_an_experiment_that_is_not_there(small, cli, name, words):
    os.mkdir("folder.yaml")
    os.mkfifo("pipe.yaml")
    os.symlink("loop.yaml", "loop.yaml")
    result = cli("run", name, "--no-plot", "-o", "out")
    assert_refused(result, "EXPERIMENT: ", *words)
    assert len(result.err) < 400


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (b"", "e.yaml: ", ("the file is empty",)),
        (b"- 1\n", "e.yaml: ", ("expected a mapping of keys to values, got a list",)),
        (b"hello\n", "e.yaml: ", ("got 'hello'",)),
        (bytes(range(256)), "e.yaml: ", ("not UTF-8 text",)),
        (SMALL.encode("utf-16"), "e.yaml: ", ("not UTF-8 text",)),
        (b"a: " + b"[" * 20_000, "e.yaml:1: ", ("nested deeper than 40 levels",)),
        (b"#" * 600_000, "e.yaml: ", ("larger than 500 kB",)),
    ],
)
def test_a_file_of_another_kind(small, cli, content, place, words):
    small.write_bytes(content)
    assert_refused(cli(*RUN), place, *words)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("e.yaml", ("e.yaml", "File exists")),
        ("e.yaml/x", ("Not a directory",)),
        ("/dev/null/x", ("Not a directory",)),
        ("/proc/x", ("/proc/x",)),
        ("", ("expected a folder with a printable name, got ''",)),
        ("a\nb", (r"'a\nb'",)),
        ("o" * 300, ("too long",)),
        ("\udcff", (r"'\udcff'",)),
    ],
)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_an_output_folder_that_cannot_be(small, cli, command, output, words):
    before = sorted(os.listdir())
    assert_refused(cli(command, "e.yaml", "-o", output), "-o", *words)
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_an_output_folder_without_permission(small, cli):
    os.mkdir("locked", mode=0o500)
    assert_refused(cli("run", "e.yaml", "-o", "locked/out"), "-o locked/out", "Permission denied")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("", ("unknown strategy ''", "allowed: standard, lga, mpp")),
        ("standard,lg", ("unknown strategy 'lg'; did you mean 'lga'?",)),
        ("standard,,lga", ("unknown strategy ''",)),
        ("standard,standard", ("standard,standard names one twice", "allowed: different names")),
        ("standard,../x", ("unknown strategy '../x'",)),
        ("\x1b[31m", (r"unknown strategy '\x1b[31m'",)),
    ],
)
def test_strategies_that_are_none(small, cli, names, words):
    assert_refused(cli("compare", "e.yaml", "--strategies", names, "-o", "out"), "--strategies: ", *words)


def test_one_strategy_that_does_not_fit_stops_them_all(small, cli):
    assert_refused(cli("compare", "e.yaml", "--set", "parallel.pipeline=16", "-o", "out"), "--set parallel.pipeline=16: ", "16")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("required: COMMAND", "`clustersim --help`")),
        (["rn"], ("unknown 'rn'; did you mean 'run'?", "allowed: run, compare")),
        (["run"], ("required: EXPERIMENT", "`clustersim run --help`")),
        (["run", "e.yaml", "--jsn"], ("unknown argument '--jsn'; did you mean '--json'?", "`clustersim run --help`")),
        (["run", "e.yaml", "--no-plo"], ("did you mean '--no-plot'?",)),
        (["run", "e.yaml", "more"], ("unknown argument 'more'",)),
        (["run", "e.yaml", "-o"], ("argument -o: expected one argument",)),
        (["run", "e.yaml", "--set"], ("argument --set: expected one argument",)),
        (["topology"], ("required: COMMAND",)),
        (["topology", "shw"], ("unknown 'shw'; did you mean 'show'?",)),
        (["topology", "show", "dgx-a10"], ("unknown cluster 'dgx-a10'; did you mean 'dgx-a100'?",)),
        (["topology", "show", "e.yaml"], ("e.yaml:1: model: unknown key",)),
        (["topology", "check", "none.yaml"], ("no such cluster file: none.yaml",)),
        (["topology", "show", "dgx-a100", "--nodes", "0"], ("--nodes: expected a whole number from 1 to 1,000,000, got '0'",)),
        (["topology", "show", "dgx-a100", "--nodes", "1e9"], ("got '1e9'",)),
        (["schedule", "show", "mp"], ("NAME: unknown schedule 'mp'; did you mean 'mpp'?",)),
        (["schedule", "show", "mpp", "-p", "0"], ("argument -p: expected a whole number from 1",)),
        (["schedule", "show", "standard", "-v", "2"],
         ("standard with -p 4 -m 8: order 1f1b does not take its stages so; allowed: chunks: 1, one stage per rank",)),
        (["schedule", "show", "mpp", "-p", "1000000", "-m", "1000000"], ("actions; allowed: at most 100,000",)),
        (["gantt", "none"], ("none: no such run folder",)),
        (["gantt", "e.yaml"], ("e.yaml: an experiment, no trace",)),
    ],
)
def test_a_wrong_command(small, cli, arguments, words):
    assert_refused(cli(*arguments), "", *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "1"], ("--from: 1 has no unit",)),
        (["--to", "soon"], ("--to: 'soon' is not a number with a unit",)),
        (["--ranks", "3-1"], ("--ranks 3-1: the range 3-1 is reversed",)),
        (["--ranks", "x"], ("--ranks x",)),
        (["-o", "picture.bmp"], ("picture.bmp", ".png")),
    ],
)
def test_a_chart_that_cannot_be_drawn(small, cli, arguments, words):
    assert cli("run", "e.yaml", "--no-plot", "-o", "done").status == 0
    files = sorted(os.listdir())
    assert_refused(cli("gantt", "done", *arguments), "", *words)
    assert sorted(os.listdir()) == files


@pytest.mark.parametrize(
    "setting", ["cost={forward: 900 h, backward: 900 h}", "cluster.gpu.efficiency=1e-15", "cluster.gpu.efficiency=1e-300"]
)
def test_a_step_longer_than_the_clock_counts(small, cli, setting):
    """In all, in an op, and beyond the numbers of a float."""
    result = cli(*RUN, "--set", setting)
    assert_refused_but_for_the_folder(result, "e.yaml: ", "longer than the clock counts (106 days)")


def test_a_step_in_which_nothing_takes_any_time_has_no_picture(small, cli):
    free = ("--set", "cost={forward: 0 s, backward: 0 s}", "--set", "cluster=ideal")
    for command, picture in (("run", "gantt.png"), ("compare", "comparison.png")):
        both = ("--strategies", "1f1b,mpp") if command == "compare" else ()
        result = cli(command, "e.yaml", "-o", "out", *both, *free)
        assert result.status == 0 and not os.path.exists(f"out/{picture}")
        assert result.err.splitlines()[-1] == f"note: out/{picture} is not drawn: nothing in the step takes any time"


def test_too_large_without_folding(small, cli, monkeypatch):
    monkeypatch.setattr(experiment, "MAX_UNFOLDED_PASSES", 100)  # 8 x 8 fit, 4 copies of them do not
    assert_refused(cli(*RUN, "--no-fold"), BATCH, "x 4 unfolded copies = 256 passes", "at most 100; fold the copies, or")
    assert cli(*RUN).status == 0


def assert_refused_but_for_the_folder(result, place, *words):
    """The run begins, so that its folder is there, and empty."""
    assert os.listdir("out") == []
    os.rmdir("out")
    assert_refused(result, place, *words)


def test_fewer_micro_batches_than_stages_run_with_a_warning(small, cli):
    result = cli(*RUN, "--set", "batch.global=2")
    assert result.status == 0 and os.path.exists("out/summary.json")
    assert result.err.startswith("warning: 1 micro-batch on 2 pipeline stages: ") and result.err.count("\n") == 1
    both = cli("compare", "e.yaml", "--set", "batch.global=2", "--strategies", "standard,mpp", "-o", "both")
    assert both.status == 0 and both.err == result.err


def test_names_print_as_they_are(small, cli):
    for name in ("[/red]", "[bold]x[/bold]", ":smile:", "模型"):
        result = cli(*RUN, "--set", f"model.name='{name}'")
        assert result.status == 0 and name in result.out


def clustersim(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "clustersim", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_a_real_process(small):
    process = clustersim("run", "none.yaml")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("clustersim: EXPERIMENT: no such experiment file: none.yaml") and err.count("\n") == 1


def test_an_interrupt_leaves_one_line_and_no_half_file(small):
    process = clustersim("run", "e.yaml", "--set", "batch.global=20000", "-o", "out")
    deadline = time.monotonic() + 60
    while not os.path.exists("out") and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "clustersim: interrupted\n")
    assert os.listdir("out") == []


def test_a_reader_that_leaves_early():
    process = clustersim("schedule", "show", "mpp", "-p", "10", "-v", "10", "-m", "400")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full") or not shutil.which("sh"), reason="needs a POSIX shell and /dev/full")
@pytest.mark.parametrize(
    ("redirection", "status", "err"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        (">/dev/full", 2, "clustersim: output: No space left on device\n"),
        ("none 2>/dev/full", 2, ""),
    ],
)
def test_streams_that_take_nothing(redirection, status, err):
    command = f'"{sys.executable}" -m clustersim schedule show mpp {redirection}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (status, err)


def test_characters_that_the_terminal_lacks(small):
    process = clustersim(*RUN, "--set", "model.name=模型", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "") and r"\u6a21\u578b" in out
