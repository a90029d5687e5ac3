"""What is damaged, and the command that reads it. Each target is a folder of good files, the one that is mutated, and arguments."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import SMALL
from tests.fuzz import tables
from tests.fuzz.mutations import mutated
from tests.importers import samples
from tests.importers.test_importers_kineto_shapes import BF16, kernel, launch, operator
from tests.model.test_model_huggingface import DEEPSEEK_V3, LLAMA3_8B

ROOT = Path(__file__).parents[2]
TINY = """\
model: {layers: 2, hidden: 64, heads: 4}
cluster: pcie-ethernet
parallel: {pipeline: 2}
strategy: standard
batch: {global: 2, sequence: 128}
"""
ON_H100 = TINY.replace("pcie-ethernet", "dgx-h100")
FULL = """\
model: {name: mine, layers: 4, hidden: 128, heads: 4, kv_heads: 2, ffn: 256, gated: true, vocab: 1000, experts: 4, top_k: 2, expert_ffn: 64}
cluster: {base: dgx-a100, gpu: {memory: 40 GB}}
nodes: 1
parallel: {data: 2, pipeline: 2, tensor: 2, expert: 2, sequence_parallel: true, order: [tensor, context, data, pipeline]}
strategy: {name: mpp, chunks: 2, partition: gradients, overlap: true, bucket: 25 MB, prefetch: 2, offload: activations}
batch: {global: 8, micro: 1, sequence: 128}
precision: bf16
recompute: selective
steps: 2
network: {bandwidth: 100 Gb/s, latency: 5 us, efficiency: 0.9, routing: spread}
pcie: {bandwidth: 20 GB/s}
collectives: ring
granularity: layer
variability: {jitter: 0.1, seed: 3, slow_gpus: [{rank: 1, times: 1.3}], slow_links: [{link: "node0/nic1>network", capacity: 0.5}]}
"""
FIXED = TINY.replace("pcie-ethernet", "ideal") + "cost: {forward: 1 s, backward: 3 s, reduce: 2 s, gather: 1 s}\nlink_delay: 5 us\n"


@dataclass(frozen=True)
class Target:
    """``damaged`` is the file of ``files`` (path in the folder: content) that is mutated, before it is packed where ``packed``."""

    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(repr=False)
    damaged: str
    mutate: Callable[[bytes, int], bytes] = mutated
    packed: bool = False

    def content(self, seed: int) -> bytes:
        """The damaged file of a seed; every seventh packed one is damaged behind the packing."""
        data = self.files[self.damaged]
        if not self.packed:
            return self.mutate(data, seed)
        return self.mutate(gzip.compress(data, 1, mtime=0), seed) if seed % 7 == 0 else gzip.compress(self.mutate(data, seed), 1, mtime=0)


def _target(command: str, damaged: str, content: str | bytes, others: Mapping[str, bytes] | None = None, **more) -> Target:
    data = content.encode() if isinstance(content, str) else content
    return Target(tuple(command.split()), {**(others or {}), damaged: data}, damaged, **more)


def _shipped(path: str) -> bytes:
    return (ROOT / path).read_bytes()


def _head(path: str, rows: int) -> bytes:
    return b"".join(_shipped(path).splitlines(keepends=True)[:rows])


RUN = "run e.yaml --no-plot --json -o out"
EXPERIMENT = {"e.yaml": TINY.encode()}
KERNELS = _head("clustersim/gpus/H100-SXM5-80GB/matmul.csv", 12)
MEASURED = """\
kind,rows,columns,inner,batch,queries,keys,heads,head_size,value_size,part,backward,moved_bytes,kernels,precision,time_us,source
matmul,128,192,64,1,,,,,,,,,,bf16,5.5,here
attention,,,,,128,128,4,16,16,0.5,false,,,bf16,7,here
pass,,,,,,,,,,,,65536,1,bf16,3,here
"""
STEPS = "measured_s,parallel.pipeline,batch.global\n0.01,1,2\n0.02,2,4\n"
PRODUCTS = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [
            operator("aten::mm", 10, 20, 1, [[128, 64], [64, 192]]),
            launch(15, 3),
            kernel(100, 40, 3),
            operator("aten::linear", 50, 20, 2, [[2, 16, 32], [64, 32], [64]], [BF16] * 3),
            launch(55, 4),
            kernel(200, 30, 4, 2),
        ],
    }
)
_PROFILE = "tests/data/kineto/synthetic_two_rank"


def targets() -> dict[str, Target]:
    """All of them by name. The folders of a run and the exports of one are made by the commands that write them."""
    run = tables.run_folder(TINY)
    chrome, kineto, csv = (tables.exported(run, kind) for kind in ("chrome", "kineto", "csv"))
    each = {
        "experiment": _target(RUN, "e.yaml", SMALL),
        "experiment-full": _target(RUN, "e.yaml", FULL),
        "experiment-fixed": _target(RUN, "e.yaml", FIXED),
        "compare": _target("compare e.yaml --json -o out --strategies 1f1b", "e.yaml", TINY),
        "schedule": _target("schedule check s.csv", "s.csv", _shipped("schedules/two-ranks.csv")),
        "schedule-run": _target(f"{RUN} --set strategy.name=./s.csv", "s.csv", _shipped("schedules/two-ranks.csv"), EXPERIMENT),
        "schedule-convert": _target(
            "schedule convert s.csv --communication --sharding -o out.csv", "s.csv", _shipped("schedules/two-ranks.csv")
        ),
        "calibration": _target(
            f"{RUN} --set cost=c.yaml",
            "c.yaml",
            _shipped("clustersim/gpus/H100-SXM5-80GB/megatron-2024.yaml"),
            {"e.yaml": ON_H100.encode()},
        ),
        "measured": _target(f"{RUN} --set cost.table=k.csv", "k.csv", MEASURED, {"e.yaml": ON_H100.encode()}),
        "measured-trace": _target(f"{RUN} --set cost.trace=k.json", "k.json", PRODUCTS, {"e.yaml": ON_H100.encode()}),
        "calibrate": _target("calibrate k.csv --gpu H100-SXM5-80GB --json -o out.yaml", "k.csv", KERNELS),
        "calibrate-kinds": _target("calibrate k.csv --gpu H100-SXM5-80GB --json -o out.yaml", "k.csv", MEASURED),
        "calibrate-steps": _target("calibrate s.csv --experiment e.yaml --json", "s.csv", STEPS, {"e.yaml": ON_H100.encode()}),
        "profile": _target("analyze k.json --json", "k.json", _shipped(f"{_PROFILE}/full/rank0.pt.trace.json")),
        "profile-packed": _target("analyze k.json.gz", "k.json.gz", _shipped(f"{_PROFILE}/full/rank1.pt.trace.json"), packed=True),
        "profile-ranks": _target(
            "analyze k --json -o out",
            "k/rank1.pt.trace.json",
            _shipped(f"{_PROFILE}/full/rank1.pt.trace.json"),
            {"k/rank0.pt.trace.json": _shipped(f"{_PROFILE}/full/rank0.pt.trace.json")},
        ),
        "profile-hta": _target("analyze k.json --definition hta --json", "k.json", _shipped(f"{_PROFILE}/full/rank0.pt.trace.json")),
        "profile-step": _target("analyze k.json --step 1 --json", "k.json", _shipped(f"{_PROFILE}/full/rank0.pt.trace.json")),
        "profile-convert": _target("convert k.json --to chrome -o out.json", "k.json", _shipped(f"{_PROFILE}/min/rank0.pt.trace.json")),
        "profile-report": _target("report k.json -o out.html", "k.json", _shipped(f"{_PROFILE}/min/rank0.pt.trace.json")),
        "export-chrome": _target("analyze x.json --json", "x.json", chrome["out.json"]),
        "export-chrome-packed": _target("convert x.json.gz --to parquet -o out", "x.json.gz", chrome["out.json"], packed=True),
        "export-kineto": _target(
            "analyze k --json", f"k/{min(kineto)}", kineto[min(kineto)], {f"k/{name}": data for name, data in kineto.items()}
        ),
        "export-csv": _target("analyze k --json", "k/ops.csv", csv["ops.csv"], {f"k/{name}": data for name, data in csv.items()}),
        "huggingface": _target(
            f"{RUN} --set model=config.json", "config.json", json.dumps(LLAMA3_8B | {"num_hidden_layers": 2}), EXPERIMENT
        ),
        "huggingface-mixture": _target(
            f"{RUN} --set model=config.json", "config.json", json.dumps(DEEPSEEK_V3 | {"num_hidden_layers": 4}, indent=1), EXPERIMENT
        ),
        "deepspeed": _target("import ds.json --model llama2-7b --gpus 32 -o out.yaml", "ds.json", samples.DEEPSPEED),
        "manifest": _target(
            "analyze run --json", "run/manifest.json", run["manifest.json"], {f"run/{name}": data for name, data in run.items()}
        ),
        "summary": _target("analyze run", "run/summary.json", run["summary.json"], {f"run/{name}": data for name, data in run.items()}),
        "manifest-report": _target(
            "report run -o out.html", "run/manifest.json", run["manifest.json"], {f"run/{name}": data for name, data in run.items()}
        ),
        "points": _target(
            "sweep e.yaml --vary batch.global=2,4 --no-knees --jobs 1 --json -o out", "out/points.jsonl", tables.points(TINY), EXPERIMENT
        ),
    }
    for name in ("175B", "LLAMA", "MIXTURE"):
        each[f"megatron-{name.lower()}"] = _target("import job.sh --gpus 64 -o out.yaml", "job.sh", getattr(samples, f"SCRIPT_{name}"))
    for name, make in samples.TOPO_TABLES.items():
        each[f"smi-{name}"] = _target("topology import topo.txt -o out.yaml", "topo.txt", make())
    for name, make in samples.XML_DUMPS.items():
        each[f"nccl-{name}"] = _target("topology import topo.xml -o out.yaml", "topo.xml", make())
    for path in sorted((ROOT / "topologies").glob("*.yaml")):
        each[f"topology-{path.stem}"] = _target("topology check t.yaml", "t.yaml", path.read_bytes())
    each["topology-collective"] = _target(
        "collective --cluster t.yaml --size 1MB,1GB --json", "t.yaml", _shipped("topologies/dgx-1-v100.yaml")
    )
    for table in ("ops", "dependencies", "links", "memory", "link_totals", "ranks"):
        files = {f"run/{name}": data for name, data in run.items()}
        for command in (
            "analyze run --json",
            "gantt run -o out.svg --json",
            "report run -o out.html --json",
            "convert run --to chrome -o out.json",
        ):
            name = f"{table}-{command.split()[0]}"
            each[name] = _target(command, f"run/{table}.parquet", run[f"{table}.parquet"], files, mutate=tables.mutated_table)
    return each
