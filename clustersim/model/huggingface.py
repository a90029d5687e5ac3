"""A model from the ``config.json`` that Hugging Face publishes beside the weights.

The file says the shape; norms, biases, positions and the kind of MLP follow from ``model_type``. Families in the table
below are counted exactly. Another type is read as Llama when its activation is one of ``GATED_ACTIVATIONS`` and as GPT-2
without learned positions otherwise, which leaves the matrices right, and norms and biases (some 0.01 %) to chance. Of a
multimodal model the text part is taken (``text_config``). Attention is counted over the whole sequence, whatever
``sliding_window`` says.

A mixture of experts, or latent attention, is read in the families of ``_MIXTURES`` and refused in others, whose routers and
shared experts differ. Layers that predict further tokens in training (``num_nextn_predict_layers``) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clustersim import document as documents
from clustersim.document import Document, Section
from clustersim.model.shape import MAX_EXPERTS, MAX_LAYERS, MAX_SIZE, Names, key_of, read_shape, read_top_k
from clustersim.model.spec import LLAMA, Latent, Model

GATED_ACTIVATIONS = ("silu", "swish", "swiglu", "geglu")

_NAMES: Names = MappingProxyType(
    {
        "layers": ("num_hidden_layers", "n_layer", "num_layers"),
        "hidden": ("hidden_size", "n_embd", "n_embed", "d_model"),
        "heads": ("num_attention_heads", "n_head"),
        "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
        "head_size": ("head_dim",),
    }
)
_FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length")
_ACTIVATION = ("hidden_act", "hidden_activation", "activation_function")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")

_NO_BIAS = {"qkv_bias": False, "projection_bias": False, "mlp_bias": False}
# What each family's code in the transformers library builds, as fields of Model that differ from the plain GPT.
_FAMILIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gpt2": {},
        "gpt_bigcode": {},
        "opt": {},
        "gpt_neox": {"tied": False},
        "bloom": {"embedding_norm": True},
        "falcon": {**_NO_BIAS, "dropout": False},
        "nemotron": {**_NO_BIAS, "tied": False, "dropout": False},
        "llama": LLAMA,
        "mistral": LLAMA,
        "phi3": LLAMA,
        "qwen2": {**LLAMA, "qkv_bias": True},
        "qwen3": {**LLAMA, "qk_norm": True},
        "gemma": {**LLAMA, "tied": True},
        "gemma2": {**LLAMA, "tied": True, "layer_norms": 4},
        "gemma3_text": {**LLAMA, "tied": True, "layer_norms": 4, "qk_norm": True},
        "mixtral": LLAMA,
        "qwen3_moe": {**LLAMA, "qk_norm": True},
        "deepseek_v2": LLAMA,
        "deepseek_v3": {**LLAMA, "router_bias": True},
        "kimi_k2": {**LLAMA, "router_bias": True},
    }
)
# Families with experts, and the key that says how many.
_MIXTURES: Mapping[str, str] = MappingProxyType(
    {
        "mixtral": "num_local_experts",
        "qwen3_moe": "num_experts",
        "deepseek_v2": "n_routed_experts",
        "deepseek_v3": "n_routed_experts",
        "kimi_k2": "n_routed_experts",
    }
)
_LATENT = ("deepseek_v2", "deepseek_v3", "kimi_k2")
# Families whose positions are learned, and the rows that the table has beyond the longest sequence.
_EXTRA_POSITIONS: Mapping[str, int] = MappingProxyType({"gpt2": 0, "gpt_bigcode": 0, "opt": 2})


_ENCODERS = ("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta")


def load_config(path: Path) -> Model:
    """The model of a Hugging Face ``config.json``; InputError, with file, line and key, when it is not complete or supported.

    ``sequence`` is the longest sequence the model was made for; where positions were stretched afterwards
    (``rope_scaling``), the length before that.

    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "gpt2.json"
    ...     _ = path.write_text(json.dumps({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None,
    ...                                     "n_positions": 1024, "vocab_size": 50257}))
    ...     load_config(path).parameters
    124439808
    """
    # JSON may be indented with tabs, which YAML forbids; inside a JSON string a tab is always escaped.
    document = documents.loads(documents.read_text(path).replace("\t", " "), str(path))
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return _model(_text_part(document), name)


def _text_part(document: Document) -> Section:
    inner = document.data.get("text_config")
    if inner is None:
        return Section(document, "", document.data)
    if not isinstance(inner, Mapping):
        document.error("text_config", f"expected a mapping, got {documents.shown(inner)}")
    # Only the outer level of some multimodal files says whether the embeddings are tied.
    outer = {key: document.data[key] for key in ("tie_word_embeddings",) if key in document.data}
    return Section(document, "text_config", {**outer, **inner})


def _model(section: Section, name: str) -> Model:
    family = section.text("model_type", "")
    _refuse_unsupported(section, family)
    shape = _shape(section, family)
    style = {**_style(section, family), **_overrides(section, family)}
    positions = section.integer(key_of(section, _POSITIONS), None, maximum=MAX_SIZE)
    learned = 0
    if family in _EXTRA_POSITIONS:
        learned = section.integer(key_of(section, _POSITIONS), maximum=MAX_SIZE) + _EXTRA_POSITIONS[family]
    # The older families default to four times the hidden size; a gated MLP has no usual size.
    ffn_default = () if style.get("gated") else (4 * shape["hidden"],)
    return Model(
        name=name,
        **shape,
        ffn=section.integer(key_of(section, _FFN), *ffn_default, maximum=MAX_SIZE),
        vocab=section.integer("vocab_size", maximum=MAX_SIZE),
        sequence=_length_before_stretching(section) or positions,
        learned_positions=learned,
        latent=_latent(section) if family in _LATENT else None,
        **_experts(section, family, shape["layers"]),
        **style,
    )


def _latent(section: Section) -> Latent:
    if section.boolean("attention_bias", False):
        section.error("attention_bias", "latent attention with biases is not supported; allowed: false, got True")
    return Latent(
        query_rank=section.integer("q_lora_rank", 0, maximum=MAX_SIZE),
        kv_rank=section.integer("kv_lora_rank", maximum=MAX_SIZE),
        rope_size=section.integer("qk_rope_head_dim", maximum=MAX_SIZE),
        value_size=section.integer("v_head_dim", maximum=MAX_SIZE),
    )


def _experts(section: Section, family: str, layers: int) -> dict[str, Any]:
    """The fields of a mixture of experts; none where no layer has one."""
    if family not in _MIXTURES:
        return {}
    key = _MIXTURES[family]
    experts = section.integer(key, minimum=0, maximum=MAX_EXPERTS)
    moe = _moe_layers(section, family, layers) if experts else []
    if not moe:
        return {}
    every = moe[1] - moe[0] if len(moe) > 1 else layers
    if moe != list(range(moe[0], layers, every)):
        section.error("mlp_only_layers", "expected layers with experts at one distance up to the last, got a list that breaks it")
    # Mixtral's experts have the inner size that the family calls the MLP's.
    expert_ffn = section.integer("moe_intermediate_size" if family != "mixtral" else "intermediate_size", maximum=MAX_SIZE)
    return {
        "experts": experts,
        "top_k": read_top_k(section, "num_experts_per_tok", key, experts),
        "expert_ffn": expert_ffn,
        "shared_ffn": expert_ffn * section.integer("n_shared_experts", 0, minimum=0, maximum=MAX_EXPERTS),
        "dense_layers": moe[0],
        "moe_every": every,
    }


def _moe_layers(section: Section, family: str, layers: int) -> list[int]:
    """The layers that have experts: DeepSeek counts its steps from layer 0, Qwen ends each step with one."""
    optional = () if family in _LATENT else (0,)
    dense = section.integer("first_k_dense_replace", *optional, minimum=0, maximum=MAX_LAYERS)
    every = section.integer("moe_layer_freq", 1, maximum=MAX_LAYERS)
    step = section.integer("decoder_sparse_step", 1, maximum=MAX_LAYERS)
    without = section.raw("mlp_only_layers", [])
    if not isinstance(without, list) or not all(type(layer) is int for layer in without):
        section.error("mlp_only_layers", f"expected a list of layers, counted from 0, got {documents.shown(without)}")
    excluded = set(without)
    return [
        layer for layer in range(dense, layers) if layer % every == 0 and (layer + 1) % step == 0 and layer not in excluded
    ]


def _shape(section: Section, family: str) -> dict[str, Any]:
    if family in _LATENT:
        # Every head has keys and values of its own; head_dim, where it is given, says something else.
        data = {key: value for key, value in section.data.items() if key not in _NAMES["kv_heads"]}
        sizes = (section.integer(key, maximum=MAX_SIZE) for key in ("qk_nope_head_dim", "qk_rope_head_dim"))
        return read_shape(Section(section.document, section.path, {**data, "head_dim": sum(sizes)}), _NAMES)
    if section.boolean("multi_query", False) and not section.boolean("new_decoder_architecture", False):
        # Falcon's older models and StarCoder: one key-value head, whatever num_kv_heads says.
        data = {key: value for key, value in section.data.items() if key not in _NAMES["kv_heads"]}
        return read_shape(Section(section.document, section.path, {**data, "num_kv_heads": 1}), _NAMES)
    return read_shape(section, _NAMES)


def _style(section: Section, family: str) -> Mapping[str, Any]:
    if family in _FAMILIES:
        return _FAMILIES[family]
    activation = section.text(key_of(section, _ACTIVATION), "")
    # Hugging Face ties the embeddings where neither the file nor the family says otherwise.
    return {**LLAMA, "tied": True} if activation.lower() in GATED_ACTIVATIONS else {}


def _overrides(section: Section, family: str) -> dict[str, bool | int]:
    """What the file itself says about ties, biases and norms."""
    fields: dict[str, bool | int] = {}
    for key, changed in (
        ("tie_word_embeddings", ("tied",)),
        ("bias", tuple(_NO_BIAS)),
        ("enable_bias", tuple(_NO_BIAS)),
        ("attention_bias", ("qkv_bias", "projection_bias")),
        ("mlp_bias", ("mlp_bias",)),
    ):
        if key in section:
            fields.update(dict.fromkeys(changed, section.boolean(key)))
    if family == "falcon":
        fields["layer_norms"] = _falcon_norms(section)
    return fields


def _falcon_norms(section: Section) -> int:
    """Attention and MLP side by side share one norm, but for the 40B and 180B models."""
    if section.boolean("new_decoder_architecture", False):
        return section.integer("num_ln_in_parallel_attn", 2, maximum=2)
    return 1 if section.boolean("parallel_attn", True) else 2


def _length_before_stretching(section: Section) -> int | None:
    key = "original_max_position_embeddings"
    for outer in ("rope_scaling", "rope_parameters"):
        scaling = section.raw(outer, None)
        if isinstance(scaling, Mapping) and key in scaling:
            return Section(section.document, documents.join(section.path, outer), scaling).integer(key, maximum=MAX_SIZE)
    return section.integer(key, None, maximum=MAX_SIZE)


def _refuse_unsupported(section: Section, family: str) -> None:
    for key in _EXPERTS:
        if family not in _MIXTURES and section.integer(key, 0, minimum=0) > 1:
            section.error(
                key, f"a mixture of experts is supported for model_type {', '.join(_MIXTURES)}; allowed: 1, got {section.raw(key)}"
            )
    if "kv_lora_rank" in section and family not in _LATENT:
        section.error("kv_lora_rank", f"multi-head latent attention is supported for model_type {', '.join(_LATENT)} alone")
    if family in _ENCODERS:
        section.error("model_type", f"{family} is an encoder; allowed: decoder-only models")
    if section.boolean("is_encoder_decoder", False):
        section.error("is_encoder_decoder", "encoder-decoder models are not supported; allowed: decoder-only models")
    projection = section.integer("word_embed_proj_dim", None)
    hidden = section.integer(key_of(section, _NAMES["hidden"]), maximum=MAX_SIZE)
    if projection is not None and projection != hidden:
        section.error(
            "word_embed_proj_dim", f"a projected embedding is not supported; allowed: the hidden size ({hidden}), got {projection}"
        )
