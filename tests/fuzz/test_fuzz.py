"""The first damaged files of each kind; ``python -m benchmarks.fuzz`` has tens of thousands."""

import gzip
from pathlib import Path

import pytest

from tests.conftest import SMALL
from tests.fuzz.child import FINE
from tests.fuzz.mutations import MUTATIONS, mutated
from tests.fuzz.parent import results

ONE_OF_A_KIND = (
    "experiment-full", "experiment-fixed", "schedule-run", "calibration", "measured", "measured-trace", "calibrate-kinds",
    "calibrate-steps",
    "profile", "profile-packed", "profile-ranks", "export-chrome-packed", "export-kineto", "export-csv", "huggingface", "deepspeed",
    "megatron-llama", "smi-dgx_2", "nccl-dgx_1", "topology-explicit-example", "topology-dgx-a100", "manifest", "summary", "ops-convert",
    "dependencies-analyze", "links-analyze", "memory-gantt", "link_totals-analyze", "ranks-analyze",
)  # fmt: skip


def test_damaged_files_end_in_a_result_or_in_one_line():
    rows = list(results(ONE_OF_A_KIND, 0, 6))
    assert [row for row in rows if row["outcome"] not in FINE] == []
    assert len(rows) == 6 * len(ONE_OF_A_KIND)
    assert {row["outcome"] for row in rows} >= {"done", "refused"}


def test_the_same_seed_does_the_same_damage():
    data = SMALL.encode()
    assert [mutated(data, seed) for seed in range(50)] == [mutated(data, seed) for seed in range(50)]
    assert sum(mutated(data, seed) != data for seed in range(200)) > 180
    assert len({mutation.__name__ for mutation in MUTATIONS}) == 13
    assert mutated(b"", 3) == mutated(b"", 3)


BOMB = '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True)
) + ']><system version="1">&i;</system>'  # fmt: skip
OUTSIDE = '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system version="1">&x;</system>'
PARAMETER = '<!DOCTYPE s SYSTEM "http://127.0.0.1:9/x.dtd"><system version="1"/>'


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, PARAMETER])
def test_xml_that_grows_or_fetches_is_refused(small, cli, text):
    Path("topo.xml").write_text(text)
    result = cli("topology", "import", "topo.xml", "-o", "out.yaml")
    assert (result.status, result.out) == (2, "") and "document types (DTD) and entities are not allowed" in result.err
    assert not Path("out.yaml").exists()


@pytest.mark.parametrize("depth", [41, 1_000, 100_000])
@pytest.mark.parametrize(("name", "command", "opening", "closing"), [
    ("e.yaml", "run e.yaml -o out", "[", "]"),
    ("t.yaml", "topology check t.yaml", "{a: ", "}"),
    ("d.json", "import d.json --model llama2-7b --gpus 8", '{"a":', "}"),
    ("k.json", "analyze k.json", '[{"a":', "}]"),
    ("x.xml", "topology import x.xml", "<system>", "</system>"),
    ("job.sh", "import job.sh --gpus 8", "$(", ")"),
])  # fmt: skip
def test_deep_nesting_is_refused(small, cli, depth, name, command, opening, closing):
    Path(name).write_text(opening * depth + closing * depth)
    result = cli(*command.split())
    assert result.status == 2 and result.err.startswith("clustersim: ") and result.err.count("\n") == 1 and len(result.err) < 1000


def test_a_packed_file_that_grows_without_end_is_refused_before_it_fills_the_memory(small, cli):
    """150 MB of spaces before the first event in some 150 kB; the limit for one event is 128 MiB."""
    with gzip.open("k.json.gz", "wb", compresslevel=9) as file:
        for _ in range(150):
            file.write(b" " * 1_000_000)
    result = cli("analyze", "k.json.gz")
    assert result.status == 2 and result.err.startswith("clustersim: k.json.gz: ") and result.err.count("\n") == 1


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside", "..", "."])
def test_no_name_in_a_file_leads_out_of_the_output_folder(small, cli, name):
    """Names of a file are labels: what is written is named after the command's own arguments."""
    Path("e.yaml").write_text(SMALL.replace("heads: 4", f"heads: 4, name: '{name}'"))
    before = sorted(path.name for path in Path("..").iterdir())
    assert cli("run", "e.yaml", "--no-plot", "-o", "out").status == 0
    Path("out/manifest.json").write_text(Path("out/manifest.json").read_text().replace('"title": "', f'"title": "{name}'))
    assert cli("convert", "out", "--to", "kineto", "-o", "k").status == 0
    assert cli("report", "out", "-o", "r.html").status == 0
    assert sorted(path.name for path in Path().iterdir()) == ["e.yaml", "k", "out", "r.html"]
    assert sorted(path.name for path in Path("..").iterdir()) == before
