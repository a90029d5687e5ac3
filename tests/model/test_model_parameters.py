"""Parameter counts: closed forms, published totals, and what a tensor rank holds."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.model.presets import NAMES, preset
from clustersim.model.spec import (
    LLAMA,
    Model,
    embedding_parameters,
    final_norm_parameters,
    head_parameters,
    layer_parameters,
    parameters_per_rank,
    share,
)


def gpt(layers, hidden, heads, vocab=0, sequence=0, **changes):
    shape = Model(
        "gpt", layers, hidden, heads, heads, hidden // heads, 4 * hidden, vocab=vocab, learned_positions=sequence
    )
    return replace(shape, **changes)


@given(
    layers=st.integers(1, 200),
    heads=st.integers(1, 200),
    head_size=st.integers(1, 512),
    vocab=st.integers(0, 300_000),
    sequence=st.integers(0, 100_000),
)
def test_plain_gpt_is_the_closed_form_and_the_final_norm(layers, heads, head_size, vocab, sequence):
    hidden = heads * head_size
    model = gpt(layers, hidden, heads, vocab, sequence)
    closed = 12 * layers * hidden**2 * (1 + Fraction(13, 12 * hidden) + Fraction(vocab + sequence, 12 * layers * hidden))
    assert model.parameters == closed + 2 * hidden


@pytest.mark.parametrize(
    "name, total",
    [
        ("llama2-7b", 6_738_415_616),
        ("llama2-13b", 13_015_864_320),
        ("llama2-70b", 68_976_648_192),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
    ],
)
def test_llama_totals_as_published(name, total):
    assert preset(name).parameters == total


@pytest.mark.parametrize(
    "name, billions, digits",
    [
        ("gpt3-175b", 174.6, 1),
        ("megatron-1.2b", 1.2, 1),
        ("megatron-2.5b", 2.5, 1),
        ("megatron-4.2b", 4.2, 1),
        ("megatron-8.3b", 8.3, 1),
        ("megatron-1.7b", 1.7, 1),
        ("megatron-3.6b", 3.6, 1),
        ("megatron-7.5b", 7.5, 1),
        ("megatron-18.4b", 18.4, 1),
        ("megatron-39.1b", 39.1, 1),
        ("megatron-76.1b", 76.1, 1),
        ("megatron-145.6b", 145.6, 1),
        ("megatron-310.1b", 310.1, 1),
        ("megatron-529.6b", 529.6, 1),
        ("megatron-1008b", 1008.0, 1),
    ],
)
def test_gpt_totals_as_their_papers_round_them(name, billions, digits):
    assert round(preset(name).parameters / 1e9, digits) == billions


@pytest.mark.parametrize(
    "x, billions, digits", [(32, 0.403, 3), (64, 12.9, 1), (108, 176, 0), (160, 1258, 0), (232, 8100, -2), (320, 40_000, -3)]
)
def test_x_family_totals(x, billions, digits):
    model = preset(f"x-{x}")
    assert round(model.parameters / 1e9, digits) == billions
    matrices = 12 * x**5
    assert matrices < model.parameters < matrices * (1 + 2 / x**2)


def test_x_160_shape():
    model = preset("x-160")
    assert (model.layers, model.heads, model.head_size, model.hidden, model.sequence) == (160, 80, 320, 25600, 2560)


def test_without_a_vocabulary_there_is_no_embedding_and_no_head():
    model = preset("x-32")
    assert embedding_parameters(model) == head_parameters(model) == embedding_parameters(model, 8) == 0
    assert model.parameters == 32 * layer_parameters(model).total + final_norm_parameters(model)


def test_segments_of_a_gpt_layer():
    layer = layer_parameters(gpt(1, 768, 12))
    assert layer.attention == 4 * 768**2 + 4 * 768
    assert layer.mlp == 8 * 768**2 + 5 * 768
    assert layer.norms == 4 * 768


def test_segments_of_a_llama_layer_with_grouped_queries():
    layer = layer_parameters(preset("llama3-8b"))
    assert layer.attention == 4096 * (4096 + 1024 + 1024 + 4096)
    assert layer.mlp == 3 * 4096 * 14336
    assert layer.norms == 2 * 4096


def test_biases_of_a_gated_model():
    llama = Model("m", 1, 64, 4, 2, 16, 100, **LLAMA)
    plain = layer_parameters(llama)
    assert layer_parameters(replace(llama, qkv_bias=True)).attention - plain.attention == 64 + 32 + 32
    assert layer_parameters(replace(llama, projection_bias=True)).attention - plain.attention == 64
    assert layer_parameters(replace(llama, mlp_bias=True)).mlp - plain.mlp == 100 + 100 + 64


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_on_a_tensor_rank_matrices_are_split_and_norms_and_row_biases_are_not(tensor):
    hidden = 1024
    layer = layer_parameters(gpt(1, hidden, 16), tensor)
    assert layer.attention == (4 * hidden**2 + 3 * hidden) // tensor + hidden
    assert layer.mlp == (8 * hidden**2 + 4 * hidden) // tensor + hidden
    assert layer.norms == 4 * hidden


def test_on_a_tensor_rank_tokens_are_split_and_positions_are_not():
    model = gpt(2, 1024, 16, vocab=51200, sequence=2048)
    rank = parameters_per_rank(model, 8)
    assert (rank.tokens, rank.positions, rank.head) == (6400 * 1024, 2048 * 1024, 0)
    assert rank.embedding == embedding_parameters(model, 8) == 8448 * 1024
    assert parameters_per_rank(replace(model, tied=False), 8).head == 6400 * 1024
    assert rank.final_norm == 2048


def test_key_value_heads_fewer_than_the_ranks_are_repeated():
    # llama2-70b has 8: on 16 ranks each holds 4 query heads and one key-value head.
    attention = layer_parameters(preset("llama2-70b"), 16).attention
    assert attention == 8192 * (4 + 1 + 1 + 4) * 128


def test_a_vocabulary_that_does_not_divide_leaves_the_larger_part():
    assert share(50257, 8) == 6283
    assert parameters_per_rank(gpt(1, 64, 4, vocab=50257), 8).tokens == 6283 * 64


@pytest.mark.parametrize("name", [*NAMES, "x-32"])
def test_the_pieces_of_one_rank_are_the_whole(name):
    model = preset(name)
    rank = parameters_per_rank(model, 1)
    dense, moe = model.layers - model.moe_layers, model.moe_layers
    layers = dense * rank.layer + moe * (rank.moe_layer + rank.experts)
    assert layers + rank.embedding + rank.final_norm + rank.head == model.parameters
