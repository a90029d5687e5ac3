"""Presets by name, and the names that are none."""

import pytest

from clustersim.model.presets import NAMES, preset


@pytest.mark.parametrize(
    "name, layers, hidden, heads, head_size, sequence",
    [
        ("gpt3-175b", 96, 12288, 96, 128, 2048),
        ("megatron-1.2b", 40, 1536, 16, 96, 1024),
        ("megatron-2.5b", 54, 1920, 20, 96, 1024),
        ("megatron-4.2b", 64, 2304, 24, 96, 1024),
        ("megatron-8.3b", 72, 3072, 32, 96, 1024),
        ("megatron-1.7b", 24, 2304, 24, 96, 2048),
        ("megatron-529.6b", 105, 20480, 128, 160, 2048),
        ("megatron-1008b", 128, 25600, 160, 160, 2048),
        ("llama2-70b", 80, 8192, 64, 128, 4096),
        ("llama3-405b", 126, 16384, 128, 128, 8192),
        ("mixtral-8x7b", 32, 4096, 32, 128, 32768),
        ("mixtral-8x22b", 56, 6144, 48, 128, 65536),
        ("qwen3-30b-a3b", 48, 2048, 32, 128, 4096),
        ("qwen3-235b-a22b", 94, 4096, 64, 128, 4096),
        ("deepseek-v3", 61, 7168, 128, 192, 4096),
        ("mixtral-8x7b", 32, 4096, 32, 128, 32768),
        ("mixtral-8x22b", 56, 6144, 48, 128, 65536),
        ("qwen3-30b-a3b", 48, 2048, 32, 128, 4096),
        ("qwen3-235b-a22b", 94, 4096, 64, 128, 4096),
        ("deepseek-v3", 61, 7168, 128, 192, 4096),
        ("mixtral-8x7b", 32, 4096, 32, 128, 32768),
        ("mixtral-8x22b", 56, 6144, 48, 128, 65536),
        ("qwen3-30b-a3b", 48, 2048, 32, 128, 4096),
        ("qwen3-235b-a22b", 94, 4096, 64, 128, 4096),
        ("deepseek-v3", 61, 7168, 128, 192, 4096),
        ("x-2", 2, 4, 1, 4, 32),
    ],
)
def test_shape(name, layers, hidden, heads, head_size, sequence):
    model = preset(name)
    assert (model.layers, model.hidden, model.heads, model.head_size, model.sequence) == (
        layers, hidden, heads, head_size, sequence,
    )  # fmt: skip


def test_every_name_is_its_models_name_and_appears_once():
    assert [preset(name).name for name in NAMES] == list(NAMES)
    assert len(set(NAMES)) == len(NAMES) == 26


# Of the mixtures Mixtral's alone do.
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("qwen3", "deepseek"))])
def test_heads_fill_the_hidden_size(name):
    model = preset(name)
    assert model.heads * model.head_size == model.hidden
    assert model.heads % model.kv_heads == 0


@pytest.mark.parametrize("name", ["x-5", "x-0", "x-10002", "x-999999999"])
def test_x_family_refuses_what_it_has_not(name):
    with pytest.raises(ValueError, match=f"no model '{name}': the family is x-N"):
        preset(name)


@pytest.mark.parametrize(
    "name, meant", [("gpt3", "gpt3-175b"), ("lama2-7b", "llama2-7b"), ("megatron-8b", "megatron-8.3b"), ("x160", "x-160")]
)
def test_unknown_name_gives_the_nearest(name, meant):
    with pytest.raises(ValueError, match=f"unknown model '{name}'; did you mean '{meant}'.; allowed: gpt3-175b, .*x-N"):
        preset(name)


@pytest.mark.parametrize("name", ["", "x-", "x--2", "x-1.5", "x-" + "9" * 5000, "nothing of the kind"])
def test_unknown_name_gives_the_list(name):
    with pytest.raises(ValueError, match=r"unknown model .*allowed: gpt3-175b"):
        preset(name)
