"""Hugging Face config files: totals as the model cards publish them, and what is refused."""

import json
from dataclasses import replace

import pytest

from clustersim.errors import InputError
from clustersim.model.huggingface import load_config
from clustersim.model.presets import preset

LLAMA3_8B = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "hidden_act": "silu", "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None, "n_positions": 1024, "n_ctx": 1024,
    "vocab_size": 50257, "activation_function": "gelu_new",
}  # fmt: skip
QWEN3_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
    "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "hidden_act": "silu", "vocab_size": 151936, "attention_bias": False,
    "max_position_embeddings": 40960, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3,
    "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "hidden_act": "silu", "vocab_size": 129280, "attention_bias": False,
    "tie_word_embeddings": False, "max_position_embeddings": 163840,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
}  # fmt: skip
MIXTRAL_8X22B = {
    "model_type": "mixtral", "hidden_size": 6144, "num_hidden_layers": 56, "num_attention_heads": 48, "num_key_value_heads": 8,
    "intermediate_size": 16384, "num_local_experts": 8, "num_experts_per_tok": 2, "hidden_act": "silu", "vocab_size": 32000,
    "max_position_embeddings": 65536, "tie_word_embeddings": False, "sliding_window": None,
}  # fmt: skip
PUBLISHED = {
    # Totals of mixtures: the tensors of the published weights, without what predicts a second token.
    "mixtral-8x7b": (
        {"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
         "hidden_act": "silu", "vocab_size": 32000, "max_position_embeddings": 32768, "tie_word_embeddings": False},
        46_702_792_704,
    ),
    "mixtral-8x22b": (MIXTRAL_8X22B, 140_620_634_112),
    "mixtral-8x22b-instruct": ({**MIXTRAL_8X22B, "vocab_size": 32768}, 140_630_071_296),
    "qwen3-30b-a3b": (QWEN3_MOE, 30_532_122_624),
    "qwen3-235b-a22b": (
        {**QWEN3_MOE, "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64, "intermediate_size": 12288,
         "moe_intermediate_size": 1536},
        235_093_634_560,
    ),
    "deepseek-v2-lite": (
        {**DEEPSEEK_V3, "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
         "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
         "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "q_lora_rank": None,
         "vocab_size": 102400},
        15_706_484_224,
    ),
    "deepseek-v2": (
        {**DEEPSEEK_V3, "model_type": "deepseek_v2", "hidden_size": 5120, "num_hidden_layers": 60, "intermediate_size": 12288,
         "moe_intermediate_size": 1536, "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6,
         "first_k_dense_replace": 1, "vocab_size": 102400},
        235_741_434_880,
    ),
    "deepseek-v3": (DEEPSEEK_V3, 671_026_419_200),
    "kimi-k2": (
        {**DEEPSEEK_V3, "model_type": "kimi_k2", "num_attention_heads": 64, "num_key_value_heads": 64,
         "n_routed_experts": 384, "first_k_dense_replace": 1, "vocab_size": 163840},
        1_026_408_232_448,
    ),
    "llama3-8b": (LLAMA3_8B, 8_030_261_248),
    "gpt2": (GPT2, 124_439_808),
    "opt-125m": (
        {"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "ffn_dim": 3072,
         "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 768, "activation_function": "relu"},
        125_239_296,
    ),
    "gpt-neox-20b": (
        {"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64,
         "intermediate_size": 24576, "hidden_act": "gelu_fast", "vocab_size": 50432, "max_position_embeddings": 2048},
        20_554_567_680,
    ),
    "bloom": (
        {"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "n_inner": None,
         "vocab_size": 250880, "seq_length": 2048},
        176_247_271_424,
    ),
    "falcon-7b": (
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
         "num_kv_heads": 71, "multi_query": True, "new_decoder_architecture": False, "parallel_attn": True, "bias": False,
         "vocab_size": 65024},
        6_921_720_704,
    ),
    "falcon-40b": (
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
         "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True, "parallel_attn": True, "bias": False,
         "vocab_size": 65024},
        41_303_293_952,
    ),
    "mistral-7b": (
        {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "hidden_act": "silu", "vocab_size": 32000,
         "sliding_window": 4096, "max_position_embeddings": 32768, "tie_word_embeddings": False, "head_dim": None},
        7_241_732_096,
    ),
    "qwen2-7b": (
        {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
         "num_key_value_heads": 4, "intermediate_size": 18944, "hidden_act": "silu", "vocab_size": 152064,
         "max_position_embeddings": 131072, "tie_word_embeddings": False},
        7_615_616_512,
    ),
    "qwen3-8b": (
        {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128,
         "num_key_value_heads": 8, "intermediate_size": 12288, "hidden_act": "silu", "vocab_size": 151936,
         "max_position_embeddings": 40960, "attention_bias": False, "tie_word_embeddings": False},
        8_190_735_360,
    ),
    "gemma-7b": (
        {"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "head_dim": 256,
         "num_key_value_heads": 16, "intermediate_size": 24576, "hidden_act": "gelu", "vocab_size": 256000,
         "max_position_embeddings": 8192},
        8_537_680_896,
    ),
    "gemma2-9b": (
        {"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16, "head_dim": 256,
         "num_key_value_heads": 8, "intermediate_size": 14336, "hidden_activation": "gelu_pytorch_tanh",
         "vocab_size": 256000, "max_position_embeddings": 8192},
        9_241_705_984,
    ),
    "phi3-mini": (
        {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 32, "intermediate_size": 8192, "hidden_act": "silu", "vocab_size": 32064,
         "max_position_embeddings": 4096, "tie_word_embeddings": False},
        3_821_079_552,
    ),
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(config, name="config.json", indent=1):
        path = tmp_path / name
        path.write_text(json.dumps(config, indent=indent))
        return path

    return write


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_total(write, name):
    config, total = PUBLISHED[name]
    model = load_config(write(config, f"{name}.json"))
    assert (model.name, model.parameters) == (name, total)


def test_config_json_is_named_after_its_folder(write, tmp_path):
    assert load_config(write(GPT2)).name == tmp_path.name


def test_absent_keys_have_their_meaning(write):
    model = load_config(write(without(LLAMA3_8B, "num_key_value_heads", "max_position_embeddings")))
    assert (model.kv_heads, model.head_size, model.sequence) == (32, 128, None)
    assert load_config(write({**GPT2, "n_inner": 1000})).ffn == 1000
    assert load_config(write(without(GPT2, "n_inner"))).ffn == 3072


def test_head_dim_needs_not_fill_the_hidden_size(write):
    model = load_config(write({**LLAMA3_8B, "head_dim": 64}))
    assert (model.head_size, model.kv_size) == (64, 512)


def test_ties_and_biases_of_the_file(write):
    plain = load_config(write(LLAMA3_8B)).parameters
    tied = load_config(write({**LLAMA3_8B, "tie_word_embeddings": True})).parameters
    assert plain - tied == 128256 * 4096
    biased = load_config(write({**LLAMA3_8B, "attention_bias": True})).parameters
    assert biased - plain == 32 * (4096 + 1024 + 1024 + 4096)
    biased = load_config(write({**LLAMA3_8B, "mlp_bias": True})).parameters
    assert biased - plain == 32 * (14336 + 14336 + 4096)


def test_text_config_of_a_multimodal_file(write):
    inner = without(LLAMA3_8B, "tie_word_embeddings")
    model = load_config(write({"model_type": "llava", "vision_config": {"hidden_size": 1024}, "text_config": inner}))
    assert model.parameters == 8_030_261_248
    tied = load_config(write({"model_type": "llava", "tie_word_embeddings": True, "text_config": inner}))
    assert tied.parameters == 8_030_261_248 - 128256 * 4096


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_stretched_positions_give_the_length_before(write, key):
    stretched = {"max_position_embeddings": 131072, key: {"factor": 8.0, "original_max_position_embeddings": 8192}}
    assert load_config(write({**LLAMA3_8B, **stretched})).sequence == 8192
    assert load_config(write({**LLAMA3_8B, **stretched, key: {"rope_theta": 500000.0}})).sequence == 131072


def test_unlisted_types_go_by_their_activation(write):
    gated = load_config(write({**LLAMA3_8B, "model_type": "brand_new"}))
    assert (gated.gated, gated.parameters) == (True, 8_030_261_248)
    silent = load_config(write({**without(LLAMA3_8B, "tie_word_embeddings"), "model_type": "brand_new"}))
    assert silent.tied
    plain = load_config(write({**LLAMA3_8B, "model_type": "brand_new", "hidden_act": "gelu"}))
    assert (plain.gated, plain.norm_bias, plain.learned_positions) == (False, True, 0)


def test_file_indented_with_tabs(write):
    assert load_config(write(GPT2, indent="\t")).layers == 12


@pytest.mark.parametrize("indent", [1, "\t"])
def test_error_names_the_line(write, indent):
    path = write({"model_type": "gpt2", "n_embd": 64, "n_layer": 0}, indent=indent)
    with pytest.raises(InputError, match=r"config.json:4: n_layer: expected a whole number"):
        load_config(path)


@pytest.mark.parametrize(
    "base, key",
    [
        (LLAMA3_8B, "hidden_size"),
        (LLAMA3_8B, "num_hidden_layers"),
        (LLAMA3_8B, "num_attention_heads"),
        (LLAMA3_8B, "intermediate_size"),
        (LLAMA3_8B, "vocab_size"),
        (GPT2, "vocab_size"),
    ],
)
def test_missing_key_is_named_with_its_file(write, base, key):
    path = write(without(base, key))
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}: key '{key}' is missing"


def test_missing_learned_positions_are_named(write):
    with pytest.raises(InputError, match="key 'max_position_embeddings' is missing"):
        load_config(write(without(GPT2, "n_positions", "n_ctx")))


def test_missing_key_of_the_text_part_is_named_with_its_line(write):
    path = write({"model_type": "llava", "text_config": without(LLAMA3_8B, "hidden_size")})
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}:3: text_config: key 'hidden_size' is missing"


@pytest.mark.parametrize(
    "key, value, problem",
    [
        ("hidden_size", 0, "expected a whole number from 1 to 100,000,000, got 0"),
        ("hidden_size", -4096, "expected a whole number from 1 to 100,000,000, got -4096"),
        ("hidden_size", "4096", "expected a whole number, got '4096'"),
        ("hidden_size", 4096.5, "expected a whole number, got 4096.5"),
        ("num_hidden_layers", 10**7, "expected a whole number from 1 to 100,000, got 10000000"),
        ("num_attention_heads", True, "expected a whole number, got True"),
        ("num_attention_heads", 56, "expected a divisor of the hidden size (4096) where head_dim is not given, got 56"),
        ("num_key_value_heads", 5, "expected a divisor of num_attention_heads (32), got 5"),
        ("intermediate_size", [14336], "expected a whole number, got a list"),
        ("vocab_size", 0, "expected a whole number from 1 to 100,000,000, got 0"),
        ("max_position_embeddings", -1, "expected a whole number from 1 to 100,000,000, got -1"),
        ("tie_word_embeddings", "yes", "expected true or false, got 'yes'"),
        ("attention_bias", 1, "expected true or false, got 1"),
        ("model_type", 3, "expected a name, got 3"),
        ("text_config", 3, "expected a mapping, got 3"),
        ("num_local_experts", 8, "a mixture of experts is supported for model_type mixtral, qwen3_moe, deepseek_v2,"),
        ("num_experts", 128, "a mixture of experts is supported for model_type mixtral, qwen3_moe, deepseek_v2,"),
        ("n_routed_experts", 256, "a mixture of experts is supported for model_type mixtral, qwen3_moe, deepseek_v2,"),
        ("kv_lora_rank", 512, "multi-head latent attention is supported for model_type deepseek_v2, deepseek_v3, kimi_k2 alone"),
        ("is_encoder_decoder", True, "encoder-decoder models are not supported"),
        ("word_embed_proj_dim", 512, "a projected embedding is not supported; allowed: the hidden size (4096), got 512"),
    ],
)
def test_wrong_value_is_refused_at_its_line(write, key, value, problem):
    config = {**LLAMA3_8B, key: value}
    if key == "num_attention_heads":
        del config["num_key_value_heads"]
    path = write(config, indent=1)
    line = 2 + list(config).index(key)
    with pytest.raises(InputError) as caught:
        load_config(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}:{line}: {key}: {problem}")


@pytest.mark.parametrize("name", ["mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3"])
def test_preset_of_a_mixture_is_its_file(write, name):
    loaded = load_config(write(PUBLISHED[name][0], f"{name}.json"))
    known = preset(name)
    assert replace(loaded, sequence=known.sequence) == known


def test_length_before_stretching_of_deepseek(write):
    assert load_config(write(DEEPSEEK_V3)).sequence == 4096


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, list(range(8))),
        ({"decoder_sparse_step": 2}, [1, 3, 5, 7]),
        ({"decoder_sparse_step": 3}, [2, 5]),
        ({"mlp_only_layers": [0, 1]}, [2, 3, 4, 5, 6, 7]),
        ({"mlp_only_layers": [1], "decoder_sparse_step": 2}, [3, 5, 7]),
        ({"mlp_only_layers": [0, 1, 2, 3, 4, 5, 6]}, [7]),
        ({"mlp_only_layers": list(range(8))}, []),
        ({"num_experts": 0}, []),
    ],
)
def test_layers_with_experts_of_qwen(write, changes, expected):
    model = load_config(write({**QWEN3_MOE, "num_hidden_layers": 8, **changes}))
    assert [layer for layer in range(8) if model.is_moe(layer)] == expected
    assert model.moe_layers == len(expected)


@pytest.mark.parametrize("first, every, expected", [(3, 1, [3, 4, 5, 6, 7]), (0, 3, [0, 3, 6]), (1, 3, [3, 6]), (8, 1, []), (9, 1, [])])
def test_layers_with_experts_of_deepseek(write, first, every, expected):
    changes = {"num_hidden_layers": 8, "first_k_dense_replace": first, "moe_layer_freq": every}
    model = load_config(write({**DEEPSEEK_V3, **changes}))
    assert [layer for layer in range(8) if model.is_moe(layer)] == expected


def test_multimodal_file_around_a_mixture(write):
    assert load_config(write({"model_type": "kimi_k25", "text_config": DEEPSEEK_V3})).parameters == 671_026_419_200


@pytest.mark.parametrize(
    "base, key, value, problem",
    [
        (QWEN3_MOE, "num_experts_per_tok", 129, "expected at most num_experts (128), got 129"),
        (QWEN3_MOE, "num_experts_per_tok", 0, "expected a whole number from 1 to 100,000, got 0"),
        (QWEN3_MOE, "num_experts", -1, "expected a whole number from 0 to 100,000, got -1"),
        (QWEN3_MOE, "num_experts", "many", "expected a whole number, got 'many'"),
        (QWEN3_MOE, "moe_intermediate_size", 0, "expected a whole number from 1 to 100,000,000, got 0"),
        (QWEN3_MOE, "decoder_sparse_step", 0, "expected a whole number from 1 to 100,000, got 0"),
        (QWEN3_MOE, "mlp_only_layers", [5], "expected layers with experts at one distance up to the last"),
        (QWEN3_MOE, "mlp_only_layers", [47], "expected layers with experts at one distance up to the last"),
        (QWEN3_MOE, "mlp_only_layers", ["5"], "expected a list of layers, counted from 0, got a list"),
        (QWEN3_MOE, "mlp_only_layers", 5, "expected a list of layers, counted from 0, got 5"),
        (MIXTRAL_8X22B, "num_experts_per_tok", 9, "expected at most num_local_experts (8), got 9"),
        (DEEPSEEK_V3, "first_k_dense_replace", -1, "expected a whole number from 0 to 100,000, got -1"),
        (DEEPSEEK_V3, "moe_layer_freq", [0, 1], "expected a whole number, got a list"),
        (DEEPSEEK_V3, "n_shared_experts", -1, "expected a whole number from 0 to 100,000, got -1"),
        (DEEPSEEK_V3, "attention_bias", True, "latent attention with biases is not supported; allowed: false, got True"),
        (DEEPSEEK_V3, "kv_lora_rank", 0, "expected a whole number from 1 to 100,000,000, got 0"),
        (DEEPSEEK_V3, "q_lora_rank", -1, "expected a whole number from 1 to 100,000,000, got -1"),
        (DEEPSEEK_V3, "v_head_dim", 1.5, "expected a whole number, got 1.5"),
    ],
)
def test_wrong_value_of_a_mixture_is_refused_at_its_line(write, base, key, value, problem):
    path = write({**base, key: value})
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}:{2 + list(base).index(key)}: {key}: {problem}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "base, key",
    [
        (MIXTRAL_8X22B, "num_local_experts"),
        (MIXTRAL_8X22B, "num_experts_per_tok"),
        (QWEN3_MOE, "num_experts"),
        (QWEN3_MOE, "moe_intermediate_size"),
        (DEEPSEEK_V3, "n_routed_experts"),
        (DEEPSEEK_V3, "first_k_dense_replace"),
        (DEEPSEEK_V3, "kv_lora_rank"),
        (DEEPSEEK_V3, "qk_nope_head_dim"),
        (DEEPSEEK_V3, "qk_rope_head_dim"),
        (DEEPSEEK_V3, "v_head_dim"),
    ],
)
def test_missing_key_of_a_mixture_is_named(write, base, key):
    path = write(without(base, key))
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}: key '{key}' is missing"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hidden_size": 1, "hidden_size": 2}', "7"])
def test_what_is_no_json_object_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"config.json") as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def test_an_encoder_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "vocab_size": 30522}')
    with pytest.raises(InputError, match=r"config.json:1: model_type: bert is an encoder; allowed: decoder-only models"):
        load_config(path)
