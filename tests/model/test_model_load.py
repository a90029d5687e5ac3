"""The ``model:`` key of an experiment."""

import json
from pathlib import Path

import pytest

from clustersim import document as documents
from clustersim.errors import InputError
from clustersim.model.load import load_model
from clustersim.model.presets import preset

GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}


def load(text, near=Path("."), sequence=None):
    document = documents.loads(text, "e.yaml")
    return load_model(document.data["model"], document, "model", near, sequence)


def complaint(text, near=Path(".")):
    with pytest.raises(InputError) as caught:
        load(text, near)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_preset():
    assert load("model: llama3-8b") == preset("llama3-8b")


def test_inline_with_the_least_is_a_plain_gpt():
    model = load("model: {layers: 40, hidden: 1536, heads: 16}")
    assert (model.name, model.kv_heads, model.head_size, model.ffn) == ("inline", 16, 96, 6144)
    assert (model.gated, model.vocab, model.tied, model.sequence) == (False, 51200, True, None)


def test_inline_gpt_at_a_sequence_is_the_preset_of_that_shape():
    inline = load("model: {name: megatron-1.2b, layers: 40, hidden: 1536, heads: 16}", sequence=1024)
    assert inline == preset("megatron-1.2b")


def test_inline_gated_model_is_a_llama():
    text = "model: {layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, gated: true, vocab: 128256}"
    assert load(text).parameters == load(text, sequence=8192).parameters == 8_030_261_248


def test_inline_everything():
    model = load(
        "model: {name: m, layers: 2, hidden: 96, heads: 8, kv_heads: 2, head_size: 16, ffn: 300, gated: false, vocab: 0, "
        "experts: 1, top_k: 1}"
    )
    assert (model.name, model.kv_heads, model.head_size, model.ffn, model.vocab) == ("m", 2, 16, 300, 0)


def test_inline_mixture_is_the_preset_of_that_shape():
    text = (
        "model: {name: mixtral-8x7b, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, gated: true, vocab: 32000, "
        "experts: 8, top_k: 2}"
    )
    assert load(text, sequence=32768) == preset("mixtral-8x7b")


@pytest.mark.parametrize("shared, inner", [("shared_experts: 2", 192), ("shared_ffn: 100", 100), ("shared_experts: 0", 0)])
def test_inline_mixture_with_everything(shared, inner):
    model = load(
        "model: {layers: 9, hidden: 64, heads: 4, ffn: 256, experts: 16, top_k: 3, expert_ffn: 96, dense_layers: 2, "
        f"moe_every: 3, {shared}}}"
    )
    assert (model.experts, model.top_k, model.ffn, model.expert_ffn, model.shared_ffn) == (16, 3, 256, 96, inner)
    assert [layer for layer in range(9) if model.is_moe(layer)] == [2, 5, 8]


@pytest.mark.parametrize("experts", ["experts: 0", "experts: 1", "experts: 1, top_k: 1, moe_every: 1"])
def test_inline_with_one_expert_is_dense(experts):
    shape = "layers: 2, hidden: 64, heads: 8"
    assert load(f"model: {{{shape}, {experts}}}") == load(f"model: {{{shape}}}")


@pytest.mark.parametrize("place", ["near", "working folder"])
def test_path_is_relative_to_the_experiment_then_to_the_working_folder(tmp_path, monkeypatch, place):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text(json.dumps(GPT2))
    near = tmp_path if place == "near" else tmp_path / "elsewhere"
    if place != "near":
        monkeypatch.chdir(tmp_path)
    model = load("model: small/config.json", near)
    assert (model.name, model.parameters) == ("small", 124_439_808)


def test_experiments_folder_comes_first(tmp_path, monkeypatch):
    for folder, layers in (("near", 12), ("working", 24)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "c.json").write_text(json.dumps({**GPT2, "n_layer": layers}))
    monkeypatch.chdir(tmp_path / "working")
    assert load("model: c.json", tmp_path / "near").layers == 12


def test_set_on_the_command_line_is_the_place_of_its_errors():
    document = documents.loads("model: {layers: 2, hidden: 64, heads: 4}", "e.yaml").override(["model.heads=0"])
    with pytest.raises(InputError, match=r"^--set model.heads=0: model.heads: expected a whole number from 1"):
        load_model(document.data["model"], document, "model", Path("."))


@pytest.mark.parametrize(
    "line, expected",
    [
        ("layers: 0", "e.yaml:2: model.layers: expected a whole number from 1 to 100,000, got 0"),
        ("layers: -3", "e.yaml:2: model.layers: expected a whole number from 1 to 100,000, got -3"),
        ("layers: 1000000", "e.yaml:2: model.layers: expected a whole number from 1 to 100,000, got 1000000"),
        ("layers: many", "e.yaml:2: model.layers: expected a whole number, got 'many'"),
        ("layers: 2.5", "e.yaml:2: model.layers: expected a whole number, got 2.5"),
        ("layers: true", "e.yaml:2: model.layers: expected a whole number, got True"),
        ("hidden: 100", "e.yaml:4: model.heads: expected a divisor of the hidden size (100) where head_size is not given"),
        ("hidden: [64]", "e.yaml:3: model.hidden: expected a whole number, got a list"),
        ("heads: 0", "e.yaml:4: model.heads: expected a whole number from 1"),
        ("kv_heads: 3", "e.yaml:5: model.kv_heads: expected a divisor of heads (8), got 3"),
        ("kv_heads: 16", "e.yaml:5: model.kv_heads: expected a divisor of heads (8), got 16"),
        ("head_size: 0", "e.yaml:5: model.head_size: expected a whole number from 1"),
        ("ffn: 0", "e.yaml:5: model.ffn: expected a whole number from 1"),
        ("vocab: -1", "e.yaml:5: model.vocab: expected a whole number from 0"),
        ("gated: 1", "e.yaml:5: model.gated: expected true or false, got 1"),
        ("name: 7", "e.yaml:5: model.name: expected a name, got 7"),
        ("experts: many", "e.yaml:5: model.experts: expected a whole number"),
        ("experts: -1", "e.yaml:5: model.experts: expected a whole number from 0 to 100,000, got -1"),
        ("experts: 8", "e.yaml:1: model: key 'top_k' is missing"),
        ("top_k: 2", "e.yaml:5: model.top_k: belongs to a mixture of experts; expected experts of 2 or more beside it, got 0"),
        ("shared_experts: 2", "e.yaml:5: model.shared_experts: belongs to a mixture of experts; expected experts of 2"),
        ("dense_layers: 2", "e.yaml:5: model.dense_layers: belongs to a mixture of experts; expected experts of 2"),
        ("kv_head: 2", "e.yaml:5: model.kv_head: unknown key; did you mean 'kv_heads'?; allowed: name, layers"),
    ],
)
def test_wrong_inline_value_is_refused_at_its_line(line, expected):
    keys = {"layers": "layers: 2", "hidden": "hidden: 64", "heads": "heads: 8"}
    keys[line.partition(":")[0]] = line
    text = "model:\n" + "".join(f"  {key}\n" for key in keys.values())
    assert complaint(text).startswith(expected)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("top_k: 9", "e.yaml:3: model.top_k: expected at most experts (8), got 9"),
        ("top_k: 0", "e.yaml:3: model.top_k: expected a whole number from 1 to 100,000, got 0"),
        ("top_k: two", "e.yaml:3: model.top_k: expected a whole number, got 'two'"),
        ("experts: 1", "e.yaml:3: model.top_k: belongs to a mixture of experts; expected experts of 2 or more beside it, got 1"),
        ("experts: 1000000", "e.yaml:4: model.experts: expected a whole number from 0 to 100,000, got 1000000"),
        ("expert_ffn: 0", "e.yaml:5: model.expert_ffn: expected a whole number from 1"),
        ("shared_experts: -1", "e.yaml:5: model.shared_experts: expected a whole number from 0"),
        ("shared_ffn: 1.5", "e.yaml:5: model.shared_ffn: expected a whole number, got 1.5"),
        ("dense_layers: 4", "e.yaml:5: model.dense_layers: expected a whole number from 0 to 3, got 4"),
        ("dense_layers: true", "e.yaml:5: model.dense_layers: expected a whole number, got True"),
        ("moe_every: 0", "e.yaml:5: model.moe_every: expected a whole number from 1 to 4, got 0"),
        ("moe_every: 5", "e.yaml:5: model.moe_every: expected a whole number from 1 to 4, got 5"),
        ("moe_freq: 2", "e.yaml:5: model.moe_freq: unknown key; did you mean"),
        ("shared_ffn: 64\n  shared_experts: 1", "e.yaml:5: model.shared_ffn: expected shared_ffn or shared_experts, not both"),
    ],
)
def test_wrong_value_of_an_inline_mixture_is_refused_at_its_line(line, expected):
    keys = {"top_k": "top_k: 2", "experts": "experts: 8"}
    keys[line.partition(":")[0]] = line
    # Lines 3 to 5 are the keys under test, the shape follows.
    text = "\nmodel:\n" + "".join(f"  {key}\n" for key in (*keys.values(), "layers: 4", "hidden: 64", "heads: 8"))
    assert complaint(text).startswith(expected)


@pytest.mark.parametrize("key", ["layers", "hidden", "heads"])
def test_missing_inline_key_is_named(key):
    keys = {"layers": 2, "hidden": 64, "heads": 8}
    del keys[key]
    assert complaint(f"model: {json.dumps(keys)}") == f"e.yaml:1: model: key '{key}' is missing"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("model: gpt3-175", "e.yaml:1: model: unknown model 'gpt3-175'; did you mean 'gpt3-175b'?; allowed: gpt3-175b,"),
        ("model: x-7", "e.yaml:1: model: no model 'x-7': the family is x-N (N even, from 2 to 10000)"),
        ("model: none/config.json", "e.yaml:1: model: no such model file: 'none/config.json'"),
        ("model: missing.json", "e.yaml:1: model: no such model file: 'missing.json'"),
        ("model: /", "e.yaml:1: model: no such model file: '/'"),
        ('model: "a\\0/b"', "e.yaml:1: model: no such model file:"),
        (f"model: /{'long' * 5000}", "e.yaml:1: model: no such model file:"),
        ("model: 7", "e.yaml:1: model: expected the name of a model, a path to a config.json, or a mapping, got 7"),
        ("model: [a]", "e.yaml:1: model: expected the name of a model, a path to a config.json, or a mapping, got a list"),
        ("model:", "e.yaml:1: model: expected the name of a model, a path to a config.json, or a mapping, got nothing"),
        ("model: {}", "e.yaml:1: model: key 'layers' is missing"),
    ],
)
def test_what_is_no_model_is_refused(text, expected):
    assert complaint(text).startswith(expected)
