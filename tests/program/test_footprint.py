"""What generations of software keep: bytes of the state, of activations and beside tensors, counted by hand."""

import pytest

from clustersim.compute.footprint import KEYS, read_footprint
from clustersim.compute.software import load_software, software_names
from clustersim.document import loads
from clustersim.errors import InputError
from clustersim.program.memory import memory_sizes, reserve_bytes, state_of
from tests.helpers import parsed, simulated

LAYER = 12 * 256**2 + 13 * 256
COUNT = 2 * LAYER + (1000 + 128) * 256 + 2 * 256  # parameters: layers, embeddings of tokens and positions, final norm


def job(software, precision="bf16", strategy="standard", parallel="{data: 4}", extra=""):
    return f"""
model: {{layers: 2, hidden: 256, heads: 4, vocab: 1000}}
cluster: dgx-a100
software: {software}
parallel: {parallel}
strategy: {strategy}
batch: {{global: 8, micro: 2, sequence: 128}}
precision: {precision}
{extra}
"""


@pytest.mark.parametrize(
    ("software", "precision", "whole", "divided", "reduced"),
    [
        ("megatron-2022", "fp16", (2, 2), 12, 2),
        ("megatron-2022", "bf16", (2, 4), 12, 4),  # 18 bytes, as Megatron-LM's theoretical_memory_usage.py counts
        ("deepspeed-2022", "fp16", (2, 2), 18, 2),
        ("deepspeed-2022", "bf16", (2, 6), 12, 4),
        ("megatron-2022", "fp32", (4, 4), 8, 4),
    ],
)
def test_state_of_a_generation(software, precision, whole, divided, reduced):
    experiment = parsed(job(software, precision, "{name: standard, partition: optimizer}"))
    assert list(memory_sizes(experiment).state[0].values()) == [whole[0] * COUNT, whole[1] * COUNT, divided * COUNT // 4]
    assert state_of(experiment)[1] == reduced


def test_shards_of_fsdp_are_16_bytes_a_parameter_and_what_stays_gathered_comes_beside_them():
    def state(partition):
        return memory_sizes(parsed(job("torch-2024", strategy=f"{{name: standard, partition: {partition}}}"))).state[0]

    sharded, gathered = state("parameters"), state("optimizer")
    assert sharded == {"weights": 0, "gradients": COUNT, "optimizer": 3 * COUNT}
    assert gathered == {"weights": 2 * COUNT, "gradients": (4 + 1) * COUNT, "optimizer": 3 * COUNT}


def test_gradients_in_32_bits_are_twice_the_traffic():
    sent = {precision: simulated(job("megatron-2022", precision)).summary["communication_bytes"]["data"] for precision in ("fp16", "bf16")}
    assert sent["bf16"] == 2 * sent["fp16"] > 0


def test_without_a_calibration_it_is_the_zero_paper():
    experiment = parsed(job("", extra="cost: peak").replace("software: \n", ""))
    assert list(memory_sizes(experiment).state[0].values()) == [2 * COUNT, 2 * COUNT, 12 * COUNT]
    assert reserve_bytes(experiment) == 0 and memory_sizes(experiment).loss_bytes == 0


def test_communicators_are_those_of_the_job_of_its_groups_and_of_neighbours():
    experiment = parsed(job("megatron-2022", parallel="{data: 2, tensor: 2, pipeline: 2}"))
    assert reserve_bytes(experiment) == 1573 * 2**20 + (1 + 2 + 1) * 688 * 10**6
    alone = parsed(job("megatron-2022", parallel="{data: 1}"))
    assert reserve_bytes(alone) == 1573 * 2**20


def test_copies_of_the_logits_and_what_a_layer_computes_in():
    tokens, heads = 2 * 128, 4
    # FlashAttention: the gradients of the MLP's two inner tensors; selective recompute of every second product computes the rest again.
    inner = 2 * 2 * tokens * 1024
    kept = tokens * (2 * (256 + 256 + 256 + 256 + 1024 + 256) + 4 * heads)  # input, queries, attention, values, MLP's first and last
    everything = tokens * (34 * 256 + 4 * heads)
    sizes = memory_sizes(parsed(job("torch-2024", extra="recompute: selective")))
    assert sizes.kept_bytes == (kept + tokens * 256, kept)  # the mask behind the embedding
    assert sizes.working_bytes == (everything - kept + inner,) * 2
    assert sizes.head_bytes == tokens * (4 * 256 + 4 * 1000)
    assert sizes.loss_bytes == tokens * 8 * 1000 + sizes.working_bytes[1]


def test_scores_that_are_computed_again_are_there_while_the_backward_runs():
    tokens, pairs = 2 * 128, 2 * 128 * 128 * 4
    sizes = memory_sizes(parsed(job("megatron-2022", extra="recompute: selective")))
    assert sizes.kept_bytes[1] == 34 * tokens * 256
    assert sizes.working_bytes[1] == 5 * pairs + max(4 * pairs, 2 * 2 * tokens * 1024)


def test_a_stage_keeps_what_it_has_sent_where_nothing_frees_it():
    jobs = (job(name, parallel="{pipeline: 2}", extra="recompute: full") for name in ("megatron-2022", "megatron-2021"))
    by_software = [memory_sizes(parsed(text)).kept_bytes for text in jobs]
    hidden = 2 * 128 * 256
    assert by_software == [(2 * hidden + hidden, 2 * hidden), (2 * hidden + hidden + 2 * hidden, 2 * hidden)]


def test_a_generation_takes_over_what_its_file_leaves_out():
    base, like = load_software("megatron-2022"), load_software("deepspeed-2022")
    assert like.norm == base.norm and like.memory.logits_most_bytes == base.memory.logits_most_bytes
    assert (like.memory.keeps_sent, base.memory.keeps_sent) == (True, False)
    assert {"deepspeed-2022", "torch-2025-compile"} <= set(software_names())


def test_more_logits_are_kept_than_there_are():
    section = loads("logits: {kept: 4 B, most: 2 B}", "mine.yaml").section("", KEYS)
    with pytest.raises(InputError, match=r"mine.yaml.*logits.most.*less than what is kept; allowed: at least as much"):
        read_footprint(section)
