"""The GPU waiting for its host, and gradients passing through memory once more: what only some generations of software do."""

import pytest

from clustersim.compute.calibration import load_calibration
from clustersim.compute.kernels import Shape, Stall, attention_block
from clustersim.compute.roofline import kernel_s
from clustersim.compute.software import load_software
from clustersim.model.presets import preset
from clustersim.model.spec import Model
from clustersim.program.build import build_costs
from tests.helpers import parsed

SHAPE = Shape(micro_batch=8, sequence=1024)
GPT = """
software: megatron-2019
model: {layers: 2, hidden: 1536, heads: 16, vocab: 51200}
cluster: dgx-2h
strategy: standard
"""


def stalls(kernels):
    return [kernel for kernel in kernels if isinstance(kernel, Stall)]


def test_states_of_the_random_generator_are_copied_at_the_dropout_and_around_a_layer_computed_again():
    """4 copies each of 200 x 4,120 B at 4.46 GiB/s, and 5 us: 4 (824,000 / 4.789e9 s + 5 us) = 708 us."""
    software = load_software("megatron-2019")
    copies_s = 4 * (200 * 4120 / (4.46 * 2**30) + 5e-6)
    for checkpointed in (False, True):
        block = attention_block(preset("megatron-1.2b"), SHAPE, software, checkpointed)
        assert stalls(block.forward) == [Stall(pytest.approx(copies_s, rel=1e-3))]
        assert [stall.seconds for stall in stalls(block.input)] == [pytest.approx(copies_s, rel=1e-3)] * checkpointed
        assert not stalls(block.weight) and not stalls(block.core)


def test_no_dropout_no_copies_and_none_in_other_generations():
    without = preset("llama2-70b")
    assert isinstance(without, Model) and not without.dropout
    assert not stalls(attention_block(without, SHAPE, load_software("megatron-2019")).forward)
    block = attention_block(preset("megatron-1.2b"), SHAPE, load_software("megatron-2020"), checkpointed=True)
    assert not stalls((*block.forward, *block.input))


def test_a_stall_takes_its_time_on_any_gpu():
    for pair in (("A100-SXM4-80GB", "megatron-2022"), ("V100-SXM3-32GB-H", "megatron-2019")):
        assert kernel_s(Stall(3e-4), load_calibration(*pair), "fp16") == 3e-4


def costs(data, recompute="none"):
    text = f"{GPT}parallel: {{data: {data}}}\nbatch: {{global: {data}, micro: 1, sequence: 1024}}\nrecompute: {recompute}\n"
    return build_costs(parsed(text))


def test_replicas_pack_divide_and_unpack_their_gradients():
    """12 B of every parameter at 0.8 x 900 GB/s, and 1.53 ms a layer; parameters of two layers, embeddings and the final norm by hand."""
    h, layers, vocab, sequence = 1536, 2, 51200, 1024
    parameters = layers * (12 * h * h + 13 * h) + (vocab + sequence) * h + 2 * h
    (alone,), (shared,) = costs(1).optimizer_ps, costs(2).optimizer_ps
    assert alone == pytest.approx(74 * parameters / (0.8 * 900e9) * 1e12 + 2 * 1.53e9, rel=1e-6)
    assert shared - alone == pytest.approx(12 * parameters / (0.8 * 900e9) * 1e12, rel=1e-6)


def test_full_recompute_waits_for_twelve_copies_a_layer():
    """4 in the forward, 4 when it is computed again, 4 in the backward; without recompute the first 4."""
    plain, full = costs(1).layers[0], costs(1, "full").layers[0]
    assert [segment.duration_ps for segment in full["F"]] == [segment.duration_ps for segment in plain["F"]]
    (forward,), (backward,), (again, after) = plain["F"], plain["B"], full["B"]
    assert again.duration_ps == forward.duration_ps
    assert after.duration_ps - backward.duration_ps == pytest.approx(708e6, abs=2)


def test_the_optimizer_waits_at_the_layers_of_its_stage_whatever_the_tensor_parallelism():
    """Two stages of one layer: with twice the tensor ranks what is left of the optimizer is half the bytes, and the same 1.53 ms."""

    def optimizer_ps(tensor):
        gpt = GPT.replace("strategy: standard", "strategy: 1f1b")
        job = f"{gpt}parallel: {{pipeline: 2, tensor: {tensor}}}\nbatch: {{global: 1, micro: 1, sequence: 1024}}\n"
        return build_costs(parsed(job)).optimizer_ps

    # The first stage's norms, biases behind row-parallel products and positions are on every tensor rank: 6 h and 1024 h parameters.
    h = 1536
    whole, half = (12 * h * h + 13 * h) + (51200 + 1024) * h, (12 * h * h + 7 * h) // 2 + 6 * h + (51200 // 2 + 1024) * h
    for tensor, parameters in ((1, whole), (2, half)):
        assert optimizer_ps(tensor)[0] == pytest.approx(74 * parameters / (0.8 * 900e9) * 1e12 + 1.53e9, rel=1e-6)
