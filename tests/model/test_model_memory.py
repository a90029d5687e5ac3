"""Activation bytes against arXiv 2205.05198, state bytes against arXiv 1910.02054."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.model.memory import (
    Kept,
    head_activation_bytes,
    layer_activation_bytes,
    state_bytes,
)
from clustersim.model.presets import preset
from clustersim.model.spec import Model


def gpt(heads, head_size):
    hidden = heads * head_size
    return Model("gpt", 1, hidden, heads, heads, head_size, 4 * hidden)


SIZES = {
    "b": st.integers(1, 64),
    "s": st.integers(1, 10_000),
    "heads_per_rank": st.integers(1, 16),
    "d": st.integers(1, 512),
    "t": st.sampled_from([1, 2, 3, 4, 8, 16]),
}


@given(**SIZES)
def test_plain_gpt_is_the_papers_formula(b, s, heads_per_rank, d, t):
    a = heads_per_rank * t
    h = a * d
    model = gpt(a, d)
    none = s * b * h * (10 + Fraction(24, t) + Fraction(5 * a * s, h * t))
    selective = s * b * h * (10 + Fraction(24, t))
    assert layer_activation_bytes(model, b, s, t) == none
    assert layer_activation_bytes(model, b, s, t, "selective") == selective
    assert layer_activation_bytes(model, b, s, t, "full") == 2 * s * b * h


@given(**SIZES)
def test_sequence_parallel_divides_everything(b, s, heads_per_rank, d, t):
    a = heads_per_rank * t
    h = a * d
    model = gpt(a, d)
    kept = layer_activation_bytes(model, b, s, t, sequence_parallel=True)
    assert kept == Fraction(s * b * h, t) * (34 + Fraction(5 * a * s, h))
    assert layer_activation_bytes(model, b, s, t, "full", sequence_parallel=True) == Fraction(2 * s * b * h, t)


def test_without_tensor_ranks_and_scores_34_sbh():
    assert layer_activation_bytes(preset("gpt3-175b"), 3, 2048, recompute="selective") == 34 * 2048 * 3 * 12288


def test_attention_share_of_gpt3_as_the_paper_gives_it():
    # arXiv 2205.05198, section 5: 5 a s/h is 80 for GPT-3.
    gpt3 = preset("gpt3-175b")
    scores = layer_activation_bytes(gpt3, 1, 2048) - layer_activation_bytes(gpt3, 1, 2048, recompute="selective")
    assert scores == 80 * 2048 * 12288


def test_llama_keeps_no_masks_less_keys_and_three_sizes_of_the_mlp():
    # Per token in 16 bits: 4 inputs of h, queries and the projection's input of h, keys and values of h/4, 3 ffn.
    tokens = 2 * 8192
    per_token = 2 * (4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336)
    llama = preset("llama3-8b")
    assert layer_activation_bytes(llama, 2, 8192, recompute="selective") == tokens * per_token
    assert layer_activation_bytes(llama, 2, 8192) == tokens * per_token + 2 * 32 * 2 * 8192**2
    split = 2 * (4 * 4096 + (2 * 4096 + 2 * 1024 + 3 * 14336) // 4)
    assert layer_activation_bytes(llama, 2, 8192, 4, "selective") == tokens * split


def test_dropout_is_two_masks_of_h_and_per_score_a_mask_and_a_copy():
    model = gpt(4, 16)
    difference = layer_activation_bytes(model, 1, 10) - layer_activation_bytes(replace(model, dropout=False), 1, 10)
    assert difference == 2 * 10 * 64 + 3 * 4 * 10**2


def test_in_32_bits_elements_double_and_masks_do_not():
    model = gpt(4, 16)
    assert layer_activation_bytes(model, 1, 10, recompute="full", precision="fp32") == 4 * 10 * 64
    assert layer_activation_bytes(model, 1, 10, recompute="selective", precision="fp32") == (2 * 32 + 2) * 10 * 64


def test_a_model_without_vocabulary():
    x32 = preset("x-32")
    assert layer_activation_bytes(x32, 1, 512, recompute="selective") == 34 * 512 * 1024
    assert head_activation_bytes(x32, 1, 512) == 2 * 512 * 1024


def test_head_keeps_two_inputs_and_logits_in_32_bits():
    # arXiv 2205.05198, section 4.3: 4 s b h/t (1 + v/h) with sequence parallelism.
    gpt3 = preset("gpt3-175b")
    kept = head_activation_bytes(gpt3, 2, 2048, tensor=8, sequence_parallel=True)
    assert kept == Fraction(4 * 2048 * 2 * 12288, 8) * (1 + Fraction(51200, 12288))
    assert head_activation_bytes(gpt3, 2, 2048, tensor=8) == 4 * 2048 * 2 * (12288 + 51200 // 8)


@pytest.mark.parametrize(
    "precision, weights, gradients, optimizer", [("bf16", 2, 2, 12), ("fp16", 2, 2, 12), ("fp32", 4, 4, 8)]
)
def test_state_bytes(precision, weights, gradients, optimizer):
    assert state_bytes(precision) == (weights, gradients, optimizer)


def test_state_of_a_7_5b_model_as_the_zero_paper_gives_it():
    # arXiv 1910.02054, figure 1: 120 GB for 7.5 billion parameters.
    assert 7.5e9 * sum(state_bytes("fp16")) == 120e9


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="unknown precision 'int8'; allowed: bf16, fp16, fp8, fp32"):
        state_bytes("int8")
    with pytest.raises(ValueError, match="unknown recompute 'some'; allowed: none, selective, full"):
        layer_activation_bytes(preset("x-32"), 1, 512, recompute="some")


def test_every_second_product_of_llama():
    # torchtitan's policy: of q, k, v, projection, gate, up and down in 16 bits the 1st, 3rd, 5th, 7th; the attention with a number a row.
    llama, tokens = preset("llama3-8b"), 2 * 8192
    per_token = 2 * (4096 + 4096 + 4096 + 1024 + 14336) + 4 * 32
    assert layer_activation_bytes(llama, 2, 8192, recompute="selective", kept=Kept(True, True)) == tokens * per_token
    assert layer_activation_bytes(llama, 2, 8192, recompute="selective", kept=Kept(True, True, True)) == tokens * (per_token + 2 * 4096)
    split = 2 * (4096 // 8 + (4096 + 4096 + 1024 + 14336) // 8) + 4 * 4
    kept = layer_activation_bytes(llama, 2, 8192, 8, "selective", sequence_parallel=True, kept=Kept(True, True))
    assert kept == tokens * split


def test_flash_keeps_a_number_for_each_row_of_scores():
    gpt3 = preset("gpt3-175b")
    more = layer_activation_bytes(gpt3, 3, 2048, 8, kept=Kept(flash=True)) - layer_activation_bytes(gpt3, 3, 2048, 8, "selective")
    assert more == 4 * 3 * 2048 * 96 // 8


def test_what_is_gathered_and_stays_is_two_inputs_of_a_layer_and_one_of_the_head():
    gpt3, beyond = preset("gpt3-175b"), 2 * 2048 * 12288 * 7 // 8
    for kept, times in ((Kept(), 0), (Kept(gathered=True), 1)):
        layer = layer_activation_bytes(gpt3, 1, 2048, 8, "selective", sequence_parallel=True, kept=kept)
        head = head_activation_bytes(gpt3, 1, 2048, 8, sequence_parallel=True, kept=kept)
        assert layer == 34 * 2048 * 12288 // 8 + times * 2 * beyond
        assert head == 4 * 2048 * (12288 + 51200) // 8 + times * beyond
    assert layer_activation_bytes(gpt3, 1, 2048, 8, "selective", kept=Kept(gathered=True)) == 2048 * 12288 * 13
