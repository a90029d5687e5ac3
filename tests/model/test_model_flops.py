"""FLOPs against the closed forms of the papers, in exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.model.flops import (
    BACKWARD,
    hardware_flops,
    head_forward_flops,
    layer_forward_flops,
    layer_recompute_flops,
    model_flops,
)
from clustersim.model.presets import preset
from clustersim.model.spec import Model

SIZES = {
    "batch": st.integers(1, 4096),
    "sequence": st.integers(1, 10_000),
    "layers": st.integers(1, 200),
    "heads": st.integers(1, 64),
    "head_size": st.integers(1, 512),
    "vocab": st.integers(0, 300_000),
}


def gpt(layers, heads, head_size, vocab):
    hidden = heads * head_size
    return Model("gpt", layers, hidden, heads, heads, head_size, 4 * hidden, vocab=vocab)


@given(**SIZES)
def test_forward_of_a_plain_gpt_layer(batch, sequence, layers, heads, head_size, vocab):
    h = heads * head_size
    flops = layer_forward_flops(gpt(layers, heads, head_size, vocab), batch, sequence)
    assert flops.total == 24 * batch * sequence * h**2 + 4 * batch * sequence**2 * h
    assert flops.attention_core == 4 * batch * sequence**2 * h
    assert flops.attention == 8 * batch * sequence * h**2 + flops.attention_core
    assert flops.mlp == 16 * batch * sequence * h**2


@given(**SIZES)
def test_model_flops_of_a_plain_gpt(batch, sequence, layers, heads, head_size, vocab):
    h = heads * head_size
    closed = 72 * batch * sequence * layers * h**2 * (1 + Fraction(sequence, 6 * h) + Fraction(vocab, 12 * layers * h))
    assert model_flops(gpt(layers, heads, head_size, vocab), batch, sequence) == closed


@given(**SIZES)
def test_hardware_flops_of_a_plain_gpt_by_recompute(batch, sequence, layers, heads, head_size, vocab):
    model = gpt(layers, heads, head_size, vocab)
    h = heads * head_size
    full = 96 * batch * sequence * layers * h**2 * (1 + Fraction(sequence, 6 * h) + Fraction(vocab, 16 * layers * h))
    assert hardware_flops(model, batch, sequence, "full") == full
    # arXiv 2205.05198, appendix A: the attention's share s/(6h) becomes s/(4.5 h), a third more: 3 + 1 times the core.
    selective = 72 * batch * sequence * layers * h**2 * (
        1 + Fraction(2 * sequence, 9 * h) + Fraction(vocab, 12 * layers * h)
    )  # fmt: skip
    assert hardware_flops(model, batch, sequence, "selective") == selective
    assert hardware_flops(model, batch, sequence, "none") == model_flops(model, batch, sequence)


def test_causal_halves_the_core_alone():
    gpt3 = preset("gpt3-175b")
    full, causal = layer_forward_flops(gpt3, 2, 2048), layer_forward_flops(gpt3, 2, 2048, causal=True)
    assert causal.attention_core == 2 * 2 * 2048**2 * 12288
    assert full.attention_core == 2 * causal.attention_core
    assert full.attention - full.attention_core == causal.attention - causal.attention_core
    assert full.mlp == causal.mlp


def test_llama_layer_with_grouped_queries_and_a_gate():
    flops = layer_forward_flops(preset("llama3-8b"), 1, 8192)
    assert flops.mlp == 2 * 8192 * 3 * 4096 * 14336
    assert flops.attention_core == 4 * 8192**2 * 4096
    assert flops.attention - flops.attention_core == 2 * 8192 * 4096 * (4096 + 2 * 1024 + 4096)


def test_a_layer_costs_two_flop_per_weight_and_token():
    flops = layer_forward_flops(preset("llama2-7b"), 1, 1)
    # The published total without the embedding, the norms (65 of 4096) and the output matrix.
    weights = 6_738_415_616 - 2 * 32000 * 4096 - 65 * 4096
    assert 32 * (flops.total - flops.attention_core) == 2 * weights


def test_iteration_time_of_the_145b_run_follows_from_its_flops():
    # arXiv 2104.04473, table 1: 1536 GPUs, batch 2304, 148 TFLOP/s per GPU by equation 3: 24.8 s an iteration.
    flops = hardware_flops(preset("megatron-145.6b"), 2304, 2048, "full")
    assert flops / (1536 * 148e12) == pytest.approx(24.817, rel=1e-4)


def test_x_160_takes_633_years_on_one_a100():
    # 8 P b s FLOP a step, 2417 sequences, 1e5 steps, 312 TFLOP/s; 644 years with the attention term.
    years = 365.25 * 86400
    x160 = preset("x-160")
    seconds = hardware_flops(x160, 2417, 2560, "full") * 1e5 / 312e12
    without_core = 8 * 12 * 160**5 * 2417 * 2560 * 1e5 / 312e12
    assert without_core / years == pytest.approx(633, abs=1)
    assert seconds / years == pytest.approx(644, abs=1)


@pytest.mark.parametrize("causal, tflop", [(False, 422.21), (True, 211.11)])
def test_llama2_7b_attention_at_8k_in_both_conventions(causal, tflop):
    # maxtext issue 1972 and pull request 1988: the TFLOP of a step's attention, for four sequences.
    core = layer_forward_flops(preset("llama2-7b"), 4, 8192, causal).attention_core
    assert round(32 * 3 * core / 1e12, 2) == tflop


def test_head_and_its_absence():
    assert head_forward_flops(preset("gpt3-175b"), 2, 2048) == 2 * 2 * 2048 * 12288 * 51200
    assert head_forward_flops(preset("x-160"), 2, 2560) == 0
    assert BACKWARD == 2


def test_recompute_repeats_what_its_name_says():
    gpt3 = preset("gpt3-175b")
    forward = layer_forward_flops(gpt3, 1, 2048)
    assert layer_recompute_flops(gpt3, 1, 2048, "none").total == 0
    assert layer_recompute_flops(gpt3, 1, 2048, "selective").total == 4 * 2048**2 * 12288
    assert layer_recompute_flops(gpt3, 1, 2048, "full") == forward


def test_unknown_recompute_is_refused():
    with pytest.raises(ValueError, match="unknown recompute 'some'; allowed: none, selective, full"):
        hardware_flops(preset("x-32"), 1, 512, "some")
