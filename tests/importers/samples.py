"""Inputs in the form of real machines and jobs: the layouts are public facts, the text is made here."""

from __future__ import annotations

DGX_1_PAIRS = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def table(gpus, nics, code, separator="\t", underline=False, affinity=("0-47", "0", "N/A"), nic_names=None):
    """What `nvidia-smi topo -m` prints; ``code(a, b)`` for a < b, NICs numbered after the GPUs."""
    names = [f"GPU{i}" for i in range(gpus)] + list(nic_names or [f"NIC{i}" for i in range(nics)])
    columns = [*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"][: len(names) + len(affinity)]
    if underline:
        columns = [f"\x1b[4m{column}\x1b[0m" for column in columns]
    lines = [separator + separator.join(columns)]
    for a, name in enumerate(names):
        codes = [" X " if a == b else code(min(a, b), max(a, b)) for b in range(len(names))]
        lines.append(separator.join([name, *codes, *(affinity if a < gpus else ())]))
    return "\n".join(lines) + "\n" + LEGEND


def dgx_1():
    """Hybrid cube mesh: six links a GPU; two GPUs and a NIC at each PCIe switch; the old word for SYS."""

    def code(a, b):
        if b < 8:
            links = DGX_1_PAIRS.get((a, b))
            return f"NV{links}" if links else "SOC"
        if a >= 8:
            return "PHB" if (a - 8) // 2 == (b - 8) // 2 else "SOC"
        return "PIX" if a // 2 == b - 8 else "PHB" if a // 4 == (b - 8) // 2 else "SOC"

    return table(8, 4, code, "  ", affinity=("0-19,40-59",), nic_names=["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"])


def dgx_2():
    """16 V100 on NVSwitch, two GPUs PIX to each of eight NICs and PXB to the next; two more NICs for storage."""

    def code(a, b):
        if b < 16:
            return "NV6"
        if a >= 16 or b >= 24:
            return "SYS"
        return "PIX" if a // 2 == b - 16 else "PXB" if a // 4 == (b - 16) // 2 else "NODE" if a // 8 == (b - 16) // 4 else "SYS"

    return table(16, 10, code, affinity=("0-23,48-71", "0"))


def dgx_a100():
    """NV12 everywhere, two GPUs and two NICs PXB apart, two NICs for storage, eight NUMA nodes."""

    def code(a, b):
        if b < 8:
            return "NV12"
        if a >= 8:
            return "PXB" if (a - 8) // 2 == (b - 8) // 2 and b < 16 else "PIX" if (a, b) == (16, 17) else "SYS"
        return "PXB" if a // 2 == (b - 8) // 2 else "SYS"

    text = table(8, 10, code)
    return text + "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(10))


def hgx_h100(underline=True):
    """NV18 everywhere; the NIC beside a GPU is not the one of its number, NIC0 is for the rest of the world."""

    def code(a, b):
        if b < 8:
            return "NV18"
        if a >= 8:
            return "NODE" if a != 8 and (a < 13) == (b < 13) else "SYS"
        if b == 8:
            return "SYS"
        return "PIX" if a == 16 - b else "NODE" if (a < 4) == (16 - b < 4) else "SYS"

    text = table(8, 9, code, underline=underline)
    return text + "\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(1, 9))


def pcie_box():
    """Four cards without NVLink: two sockets, two host bridges each, no NIC shown."""

    def code(a, b):
        return "PHB" if a // 2 == b // 2 else "SYS"

    return table(4, 0, code, affinity=("0-15", "0", "N/A"))


def bridged_pairs():
    """Four A100 PCIe with NVLink bridges, one NIC at the first host bridge."""

    def code(a, b):
        if b < 4:
            return "NV12" if a // 2 == b // 2 else "SYS"
        return "NODE" if a < 2 else "SYS"

    return table(4, 1, code)


TOPO_TABLES = {"dgx_1": dgx_1, "dgx_2": dgx_2, "dgx_a100": dgx_a100, "hgx_h100": hgx_h100, "bridged_pairs": bridged_pairs}


def pci(busid, inner, kind="0x060400", device="0xc010", speed="16.0 GT/s PCIe", width="16"):
    rate = f'link_speed="{speed}" link_width="{width}"'
    return f'<pci busid="{busid}" class="{kind}" vendor="0x1000" device="{device}" {rate}>\n{inner}</pci>\n'


def gpu_xml(number, busid, sm, device, links, speed="16.0 GT/s PCIe"):
    nvlinks = "".join(f'<nvlink target="{t}" count="{c}" tclass="{k}"/>\n' for t, c, k in links)
    inner = f'<gpu dev="{number}" sm="{sm}" rank="{number}" gdr="1">\n{nvlinks}</gpu>\n'
    return pci(busid, inner, "0x030200", device, speed)


def net_xml(name, busid, speed=200000, latency="0.000000", link="16.0 GT/s PCIe"):
    attributes = f'name="{name}" dev="0" speed="{speed}" port="1" latency="{latency}" guid="0xa262550003a1420c" maxconn="131072" gdr="1"'
    return pci(busid, f"<nic>\n<net {attributes}/>\n</nic>\n", "0x020700", "0x101b", link)


def system(*cpus):
    inner = "".join(
        f'<cpu host_hash="0x8393" numaid="{i}" affinity="0000ffff" arch="x86_64"'
        f' vendor="AuthenticAMD" familyid="143" modelid="49">\n{c}</cpu>\n'
        for i, c in enumerate(cpus)
    )
    return f'<system version="1">\n{inner}</system>\n'


def dgx_a100_xml():
    """Four CPUs with a switch each: a GPU and a NIC below each of two inner bridges; six NVSwitches; a slower NIC elsewhere."""
    switches = [(f"0000:c{i}:00.0", 2, "0x068000") for i in range(4, 10)]

    def half(i):
        return pci(
            f"0000:{i}2:00.0",
            gpu_xml(i, f"0000:{i}7:00.0", 80, "0x20b2", switches) + net_xml(f"mlx5_{i}", f"0000:{i}c:00.0"),
        )

    groups = [pci(f"0000:{a}1:00.0", half(a) + half(a + 1)) for a in range(0, 8, 2)]
    return system(*groups, net_xml("mlx5_8", "0000:e1:00.0", 100000))


def dgx_1_xml():
    def busid(i):
        return f"0000:{(0x06, 0x07, 0x0A, 0x0B, 0x85, 0x86, 0x89, 0x8A)[i]:02x}:00.0"

    def links(i):
        return [
            (busid(b if a == i else a), count, "0x030200") for (a, b), count in DGX_1_PAIRS.items() if i in (a, b)
        ]

    def pair(i):
        inner = "".join(gpu_xml(n, busid(n), 70, "0x1db5", links(n), "8 GT/s") for n in (i, i + 1))
        inner += net_xml(f"mlx5_{i // 2}", f"0000:f{i}:01.0", 100000, link="8 GT/s")
        return pci(f"0000:f{i}:00.0", inner, device="0x8764", speed="8 GT/s")

    return system(pair(0) + pair(2), pair(4) + pair(6))


def hgx_h100_xml():
    def group(i):
        links = [(f"0000:0{n}:00.0", count, "0x068000") for n, count in zip((5, 6, 7, 8), (4, 5, 5, 4), strict=False)]
        inner = gpu_xml(i, f"0000:{i}b:00.0", 90, "0x2330", links, "32.0 GT/s PCIe")
        inner += net_xml(f"mlx5_{i}", f"0000:{i}a:00.0", 400000, link="32.0 GT/s PCIe")
        return pci(f"0000:{i}9:00.0", inner, speed="32.0 GT/s PCIe")

    return system("".join(map(group, range(4))), "".join(map(group, range(4, 8))))


XML_DUMPS = {"dgx_1": dgx_1_xml, "dgx_a100": dgx_a100_xml, "hgx_h100": hgx_h100_xml}

SCRIPT_175B = r"""#!/bin/bash
# 175 billion parameters
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
MASTER_ADDR=localhost   # change for several nodes
NUM_NODES=128
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
CHECKPOINTS=$1 #<path>
DATA=$2

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
    --node_rank $NODE_RANK
)
MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # flash, fused, unfused, local
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536
    --rampup-batch-size 16 16 5859375
    --train-iters 500000
    --adam-beta1 0.9
    --clip-grad 1.0
    --bf16
    --lr 6.0e-5
    --use-distributed-optimizer
    --overlap-grad-reduce
    --recompute-granularity full
)
PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 8
)
DATA_ARGS=(
    --data-path $DATA
    --vocab-file gpt2-vocab.json
    --split 949,50,1
    --save $CHECKPOINTS
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    "${TRAINING_ARGS[@]}" \
    ${PARALLEL_ARGS[@]} \
    ${DATA_ARGS[@]} 2>&1 | tee train.log
"""

SCRIPT_LLAMA = r"""
TP=${TP:-4}; PP=2
NNODES=4
GPT_ARGS="
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size $PP \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length 8192 --max-position-embeddings 8192 \
    --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights \
    --position-embedding-type rope \
    --tokenizer-type NullTokenizer --vocab-size 128000 \
    --micro-batch-size 1 --global-batch-size 128 \
    --recompute-activations --fp16
"
if [ "$MODE" = fast ]; then
    EXTRA="--overlap-grad-reduce --sequence-parallel"
fi
torchrun --nproc-per-node=8 --nnodes=$NNODES pretrain_gpt.py $GPT_ARGS $EXTRA --data-path '/data/my set' "$@"
"""

SCRIPT_MIXTURE = r"""
MOE=( --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 --moe-shared-expert-intermediate-size 2816
    --moe-layer-freq "([0]*1+[1]*26)" --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall )
torchrun --nnodes 8 --nproc_per_node 8 pretrain_gpt.py ${MOE[@]} --num-layers 27 --hidden-size 2048 --num-attention-heads 16 \
    --seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --swiglu --bf16 --use-distributed-optimizer --overlap-grad-reduce \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 2 --sequence-parallel \
    --pipeline-model-parallel-layout 'Et*6|(t*7|)*2,t*7,L' --ddp-bucket-size 100000000
"""

DEEPSPEED = """{
  "train_batch_size": 256,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 2,
  "gradient_clipping": 1.0,
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "contiguous_gradients": true,
    "reduce_bucket_size": 5e8,
    "stage3_prefetch_bucket_size": 5e7,
    "zero_hpz_partition_size": 8,
    "offload_optimizer": {"device": "cpu", "pin_memory": true}
  },
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95]}},
  "wall_clock_breakdown": false
}
"""
