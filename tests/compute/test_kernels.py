"""The kernels of a layer, against shapes worked out by hand for a GPT of hidden 512, 8 heads of 64, inner size 2048."""

from dataclasses import replace

import pytest

from clustersim.compute.kernels import (
    Attention,
    Matmul,
    Pass,
    Shape,
    attention_block,
    embedding_block,
    experts_block,
    head_block,
    mlp_block,
)
from tests.compute.toy import GPT, software

SHAPE = Shape(micro_batch=2, sequence=128, tensor=2)
PLAIN = replace(GPT, dropout=False)


def of(kind, kernels):
    return [kernel for kernel in kernels if isinstance(kernel, kind)]


def flops(kernels):
    return sum(kernel.flops for kernel in of(Matmul, kernels))


def test_flops_of_kernels():
    assert Matmul(2, 3, 5, 7).flops == 2 * 2 * 3 * 5 * 7
    forward = Attention(16, 16, 4, 64, 64, 1.0, backward=False)
    assert forward.flops == 2 * 2 * 4 * 16 * 16 * 64
    assert forward._replace(backward=True).flops == 2.5 * forward.flops
    assert forward._replace(part=0.5).flops == forward.flops / 2


def test_attention_on_two_tensor_ranks():
    """256 tokens; 4 heads a rank: 3 x 4 x 64 columns of queries, keys and values, and as many rows of the projection as one third."""
    block = attention_block(PLAIN, SHAPE, software())
    assert of(Matmul, block.forward) == [
        Matmul(256, 768, 512), Matmul(128, 128, 64, 8), Matmul(128, 64, 128, 8), Matmul(256, 512, 256),
    ]  # fmt: skip
    assert sorted(of(Matmul, block.weight)) == sorted([Matmul(512, 768, 256), Matmul(256, 512, 256)])
    assert list(block.core) == [Matmul(128, 128, 64, 8), Matmul(128, 64, 128, 8)]


@pytest.mark.parametrize("attention", ["unfused", "flash"])
def test_a_backward_is_twice_the_products_of_the_forward(attention):
    """Of a matrix the gradients of its input and of its weight; of scores and context those of both factors."""
    block = attention_block(PLAIN, SHAPE, software(attention))
    weights = 2 * 256 * 512 * (768 + 256)
    core = 2 * 2 * 8 * 128 * 128 * 64
    unfused = attention == "unfused"
    assert flops(block.forward) == weights + core * unfused
    assert flops(block.input) == weights + 2 * core * unfused
    assert flops(block.weight) == weights


def test_flash_attention_is_one_kernel_each_way():
    block = attention_block(PLAIN, SHAPE, software("flash", causal=True))
    assert of(Attention, block.forward) == [Attention(128, 128, 8, 64, 64, 0.5, False)]
    assert of(Attention, block.input) == [Attention(128, 128, 8, 64, 64, 0.5, True)]
    full = attention_block(PLAIN, SHAPE, software("flash", causal=False))
    assert of(Attention, full.forward)[0].part == 1.0


def test_context_ranks_have_their_queries_and_all_keys():
    block = attention_block(PLAIN, replace(SHAPE, parts=4), software())
    assert of(Matmul, block.forward)[:2] == [Matmul(64, 768, 512), Matmul(32, 128, 64, 8)]


def test_grouped_queries_have_fewer_columns():
    """2 heads of keys and values, one of them on each rank: 4 x 64 + 2 x 64 columns."""
    block = attention_block(replace(PLAIN, kv_heads=2), SHAPE, software())
    assert of(Matmul, block.forward)[0] == Matmul(256, 384, 512)


def test_the_matrices_of_the_mlp():
    block = mlp_block(PLAIN, SHAPE, software(), PLAIN.ffn)
    assert of(Matmul, block.forward) == [Matmul(256, 1024, 512), Matmul(256, 512, 1024)]
    assert of(Matmul, block.input) == [Matmul(256, 1024, 512), Matmul(256, 512, 1024)]
    assert sorted(of(Matmul, block.weight)) == [Matmul(512, 1024, 256), Matmul(1024, 512, 256)]
    gated = mlp_block(replace(PLAIN, gated=True), SHAPE, software(), PLAIN.ffn)
    assert of(Matmul, gated.forward)[0] == Matmul(256, 2048, 512)


def test_passes_of_a_norm_move_the_hidden_state():
    """2 passes over 256 x 512 elements of 2 bytes; sequence parallelism leaves a rank half of the tokens."""
    norm = software(norm=(2, 4))
    for shape, tokens in ((SHAPE, 256), (replace(SHAPE, sequence_parallel=True), 128)):
        block = mlp_block(PLAIN, shape, norm, PLAIN.ffn)
        moved = sum(kernel.moved_bytes for kernel in of(Pass, block.forward))
        assert moved == 2 * tokens * 512 * 2


def test_passes_over_the_scores():
    """4 heads of 2 sequences have 128 x 128 scores each; 3 passes, 2 bytes."""
    block = attention_block(PLAIN, SHAPE, software(scores=(3, 5)))
    assert sum(kernel.moved_bytes for kernel in of(Pass, block.core)) == 3 * 8 * 128 * 128 * 2


def test_experts_share_the_tokens_evenly():
    """256 tokens twice over 4 experts of this rank (8, on two expert ranks): 128 each, one batch of products."""
    moe = replace(PLAIN, experts=8, top_k=2, expert_ffn=256)
    block = experts_block(moe, Shape(2, 128, expert=2), software())
    assert of(Matmul, block.forward) == [Matmul(128, 256, 512, 4), Matmul(128, 512, 256, 4)]


def test_head_and_embedding():
    head = head_block(PLAIN, SHAPE, software(loss=(4, 2)))
    assert of(Matmul, head.forward) == [Matmul(256, 500, 512)]
    assert sum(kernel.moved_bytes for kernel in of(Pass, head.forward)) == 4 * 256 * 500 * 4
    embedding = embedding_block(PLAIN, SHAPE, software(embedding=(2, 2)))
    assert sum(kernel.moved_bytes for kernel in embedding.forward) == 2 * 256 * 512 * 2
    assert head_block(replace(PLAIN, vocab=0), SHAPE, software()).forward == ()


def test_dropout_writes_a_mask_of_a_byte_for_every_score():
    """Read, written, and the mask: 5 bytes a score, before the scores' other passes or after."""
    block = attention_block(replace(PLAIN, dropout=True), SHAPE, software(dropout=(3, 5)))
    assert sum(kernel.moved_bytes for kernel in of(Pass, block.core)) == 5 * 8 * 128 * 128
