"""Mixtures of experts and latent attention: counts as published, by hand, and over the ranks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.model.flops import (
    LayerFlops,
    hardware_flops,
    head_forward_flops,
    layer_forward_flops,
    layer_recompute_flops,
    model_flops,
)
from clustersim.model.memory import dispatch_bytes, layer_activation_bytes
from clustersim.model.presets import preset
from clustersim.model.spec import (
    LLAMA,
    Latent,
    Model,
    attention_matrices,
    embedding_parameters,
    layer_parameters,
    parameters_per_rank,
)

# Six layers, of which 1, 3 and 5 have eight experts of 24 and a shared one of 40.
SMALL = Model(
    "small", 6, 64, 4, 2, 16, 96, vocab=1000, experts=8, top_k=2, expert_ffn=24, shared_ffn=40, dense_layers=1, moe_every=2,
    **LLAMA,
)  # fmt: skip
LATENT = replace(SMALL, kv_heads=4, head_size=24, latent=Latent(query_rank=20, kv_rank=12, rope_size=8, value_size=10))


@pytest.mark.parametrize(
    "name, total",
    [
        # Sums over the tensors of the published weights; DeepSeek-V3's with the router's biases, without the second token's layer.
        ("mixtral-8x7b", 46_702_792_704),
        ("mixtral-8x22b", 140_620_634_112),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("deepseek-v3", 671_026_419_200),
    ],
)
def test_totals_as_published(name, total):
    assert preset(name).parameters == total


@pytest.mark.parametrize(
    "name, billions, digits",
    [
        # arXiv 2401.04088 (13B) and the announcement (12.9B); 39B of Mixtral-8x22B; arXiv 2505.09388, table 2.
        ("mixtral-8x7b", 12.9, 1),
        ("mixtral-8x22b", 39, 0),
        ("qwen3-235b-a22b", 22, 0),
    ],
)
def test_active_parameters_as_published(name, billions, digits):
    assert round(preset(name).active_parameters / 1e9, digits) == billions


def test_active_parameters_of_deepseek_v3_without_its_embedding():
    # The notes with its weights: 36.6B without the input's embedding, told as 37B.
    model = preset("deepseek-v3")
    assert round((model.active_parameters - embedding_parameters(model)) / 1e9, 1) == 36.6


def test_active_parameters_exactly():
    assert preset("mixtral-8x7b").active_parameters == 12_879_925_248
    assert preset("qwen3-30b-a3b").active_parameters == 3_353_032_704
    assert preset("llama3-8b").active_parameters == preset("llama3-8b").parameters


def test_layers_with_experts():
    assert [layer for layer in range(-1, 8) if SMALL.is_moe(layer)] == [1, 3, 5]
    assert SMALL.moe_layers == 3
    deepseek = preset("deepseek-v3")
    assert (deepseek.moe_layers, deepseek.is_moe(2), deepseek.is_moe(3), deepseek.is_moe(60)) == (58, False, True, True)
    gpt = preset("gpt3-175b")
    assert (gpt.moe_layers, gpt.is_moe(0)) == (0, False)


def test_segments_of_a_small_mixture_by_hand():
    moe = layer_parameters(SMALL, moe=True)
    assert moe.experts == 8 * 3 * 64 * 24
    assert moe.mlp == 64 * 8 + 3 * 64 * 40
    dense = layer_parameters(SMALL)
    assert (dense.mlp, dense.experts) == (3 * 64 * 96, 0)
    assert (moe.attention, moe.norms) == (dense.attention, dense.norms) == (64 * (64 + 32 + 32 + 64), 2 * 64)
    assert layer_parameters(replace(SMALL, router_bias=True), moe=True).mlp == moe.mlp + 8
    assert SMALL.parameters == 3 * dense.total + 3 * moe.total + 2 * 1000 * 64 + 64
    assert SMALL.active_parameters == SMALL.parameters - 3 * 6 * 3 * 64 * 24


def test_experts_of_a_plain_gpt_have_biases():
    plain = Model("gpt", 2, 64, 4, 4, 16, 256, experts=4, top_k=1, expert_ffn=256)
    moe = layer_parameters(plain, moe=True)
    assert moe.experts == 4 * layer_parameters(plain).mlp
    assert moe.mlp == 4 * 64


def test_deepseek_v3_attention_matrix_by_matrix():
    # Down and up for queries, down with the rotary key and up for keys and values, and the output.
    matrices = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168
    layer = layer_parameters(preset("deepseek-v3"))
    assert layer.attention == matrices
    # With the two norms of the low-rank vectors, the figure of the published layer.
    assert matrices + 1536 + 512 == 187_107_328
    assert layer.norms == 2 * 7168 + 1536 + 512


def test_latent_attention_without_a_query_rank():
    straight = replace(LATENT, latent=replace(LATENT.latent, query_rank=0))
    assert attention_matrices(straight) == 64 * 4 * 24 + 64 * (12 + 8) + 12 * 4 * (16 + 10) + 4 * 10 * 64
    assert layer_parameters(straight).norms == 2 * 64 + 12


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    expert=st.sampled_from([1, 2, 4, 8, 16]),
    experts_per_rank=st.integers(1, 8),
    inner=st.integers(1, 100),
    shared=st.integers(0, 100),
    hidden=st.integers(1, 500),
    heads=st.integers(1, 5),
    latent=st.booleans(),
    gated=st.booleans(),
)
def test_parts_of_the_ranks_add_up_to_the_layer(tensor, expert, experts_per_rank, inner, shared, hidden, heads, latent, gated):
    # Without biases, so that only norms, the router and the matrices down to low ranks are on every tensor rank.
    model = Model(
        "m", 2, hidden, heads * tensor, heads * tensor, 16, inner * tensor, experts=experts_per_rank * expert, top_k=1,
        expert_ffn=3 * inner * tensor, shared_ffn=shared * tensor, latent=Latent(6, 10, 4, 12) if latent else None,
        **{**LLAMA, "gated": gated},
    )  # fmt: skip
    whole, rank = layer_parameters(model, moe=True), layer_parameters(model, tensor, expert, moe=True)
    assert tensor * expert * rank.experts == whole.experts
    router = model.experts * hidden
    assert tensor * (rank.mlp - router) == whole.mlp - router
    down = hidden * (6 + 10 + 4) if latent else 0
    assert tensor * (rank.attention - down) == whole.attention - down
    assert rank.norms == whole.norms
    piece = parameters_per_rank(model, tensor, expert)
    assert (piece.moe_layer, piece.experts) == (rank.attention + rank.mlp + rank.norms, rank.experts)
    assert piece.layer == layer_parameters(model, tensor).total


def test_expert_parallelism_leaves_a_dense_layer_alone():
    assert layer_parameters(SMALL, 2, expert=4) == layer_parameters(SMALL, 2)
    gpt = preset("gpt3-175b")
    assert parameters_per_rank(gpt, 8, expert=4) == parameters_per_rank(gpt, 8)
    assert (parameters_per_rank(gpt, 8).moe_layer, parameters_per_rank(gpt, 8).experts) == (0, 0)


def test_flops_of_a_small_mixture_by_hand():
    b, s = 3, 10
    tokens = b * s
    moe, dense = layer_forward_flops(SMALL, b, s, moe=True), layer_forward_flops(SMALL, b, s)
    assert moe.experts == tokens * 2 * (2 * 3 * 64 * 24)
    assert moe.mlp == tokens * (2 * 64 * 8 + 2 * 3 * 64 * 40)
    assert dense.mlp == tokens * 2 * 3 * 64 * 96
    assert (moe.attention, moe.attention_core) == (dense.attention, dense.attention_core)
    assert moe.total == moe.attention + moe.mlp + moe.experts
    step = 3 * (3 * dense.total + 3 * moe.total) + 3 * head_forward_flops(SMALL, b, s)
    assert model_flops(SMALL, b, s) == step
    assert hardware_flops(SMALL, b, s, "full") == step + 3 * dense.total + 3 * moe.total
    assert hardware_flops(SMALL, b, s, "selective") == step + 6 * dense.attention_core


def test_recompute_of_a_layer_with_experts():
    forward = layer_forward_flops(SMALL, 1, 10, moe=True)
    assert layer_recompute_flops(SMALL, 1, 10, "full", moe=True) == forward
    core = forward.attention_core
    assert layer_recompute_flops(SMALL, 1, 10, "selective", moe=True) == LayerFlops(core, core, 0)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"])
def test_a_token_costs_two_flop_for_each_active_weight(name):
    model = preset(name)
    moe, dense = layer_forward_flops(model, 1, 1, moe=True), layer_forward_flops(model, 1, 1)
    layers = model.moe_layers * (moe.total - moe.attention_core)
    layers += (model.layers - model.moe_layers) * (dense.total - dense.attention_core)
    # Norms and the router's biases do no matrix product, and looking up the embedding does none either.
    idle = model.layers * layer_parameters(model).norms + model.hidden + embedding_parameters(model)
    idle += model.moe_layers * model.experts * model.router_bias
    assert layers + head_forward_flops(model, 1, 1) == 2 * (model.active_parameters - idle)


def test_latent_core_counts_queries_of_one_size_and_values_of_another():
    full = layer_forward_flops(preset("deepseek-v3"), 2, 4096)
    assert full.attention_core == 2 * 2 * 4096**2 * 128 * (192 + 128)
    assert layer_forward_flops(preset("deepseek-v3"), 2, 4096, causal=True).attention_core == full.attention_core // 2


def test_activations_of_a_layer_with_experts_by_hand():
    # Per token in 16 bits: four inputs of h, queries and projection input of h, keys and values of h/2; copies of h with three
    # inner sizes; three of the shared expert; in 32 bits eight probabilities.
    per_token = 2 * (4 * 64 + 2 * 64 + 2 * 32 + 2 * (64 + 3 * 24) + 3 * 40) + 4 * 8
    assert layer_activation_bytes(SMALL, 3, 10, recompute="selective", moe=True) == 30 * per_token
    scores = 2 * 4 * 3 * 10**2
    assert layer_activation_bytes(SMALL, 3, 10, moe=True) == 30 * per_token + scores
    assert layer_activation_bytes(SMALL, 3, 10, recompute="full", moe=True) == 2 * 30 * 64


def test_activations_of_experts_over_tensor_ranks():
    # Split: heads and inner sizes; whole: the inputs, the probabilities and the copies that the columns multiply.
    split = 2 * 64 + 2 * 32 + 2 * 3 * 24 + 3 * 40
    whole = 2 * (4 * 64) + 4 * 8
    copies = 2 * 2 * 64
    kept = layer_activation_bytes(SMALL, 1, 10, 2, "selective", moe=True)
    assert kept == 10 * (whole + copies + 2 * split // 2)
    # With sequence parallelism the copies alone stay whole.
    kept = layer_activation_bytes(SMALL, 1, 10, 2, "selective", sequence_parallel=True, moe=True)
    assert kept == 10 * (whole // 2 + copies + 2 * split // 2)


def test_activations_of_latent_attention_by_hand():
    # Low-rank vectors before and after their norms; queries and keys of 24, values and the projection's input of 10, four heads.
    per_token = 2 * (4 * 64 + 2 * (20 + 12) + 4 * (24 + 24 + 10 + 10) + 3 * 96)
    assert layer_activation_bytes(LATENT, 1, 10, recompute="selective") == 10 * per_token


@pytest.mark.parametrize("precision, element", [("bf16", 2), ("fp16", 2), ("fp32", 4)])
def test_a_dispatch_sends_every_token_to_each_of_its_experts(precision, element):
    assert dispatch_bytes(preset("deepseek-v3"), 2, 4096, precision) == 2 * 4096 * 8 * 7168 * element
    assert dispatch_bytes(preset("gpt3-175b"), 2, 2048, precision) == 0
