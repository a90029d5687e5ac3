"""A model from the ``config.json`` that Hugging Face publishes beside the weights.

The file says the shape; norms, biases, positions and the kind of MLP follow from ``model_type``. Families in the table
below are counted exactly. Another type is read as Llama when its activation is one of ``GATED_ACTIVATIONS`` and as GPT-2
without learned positions otherwise, which leaves the matrices right, and norms and biases (some 0.01 %) to chance. Of a
multimodal model the text part is taken (``text_config``). Attention is counted over the whole sequence, whatever
``sliding_window`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clustersim import document as documents
from clustersim.document import Document, Section
from clustersim.model.shape import MAX_SIZE, Names, key_of, read_shape
from clustersim.model.spec import LLAMA, Model

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
        "llama": LLAMA,
        "mistral": LLAMA,
        "phi3": LLAMA,
        "qwen2": {**LLAMA, "qkv_bias": True},
        "qwen3": {**LLAMA, "qk_norm": True},
        "gemma": {**LLAMA, "tied": True},
        "gemma2": {**LLAMA, "tied": True, "layer_norms": 4},
        "gemma3_text": {**LLAMA, "tied": True, "layer_norms": 4, "qk_norm": True},
    }
)
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
    _refuse_unsupported(section)
    shape = _shape(section)
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
        **style,
    )


def _shape(section: Section) -> dict[str, int]:
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


def _refuse_unsupported(section: Section) -> None:
    for key in _EXPERTS:
        if section.integer(key, 0, minimum=0) > 1:
            section.error(key, f"mixture-of-experts is not supported yet; allowed: 1, got {section.raw(key)}")
    if "kv_lora_rank" in section:
        section.error(
            "kv_lora_rank", "multi-head latent attention is not supported yet; allowed: multi-head and grouped-query attention"
        )
    if section.text("model_type", "") in _ENCODERS:
        section.error("model_type", f"{section.raw('model_type')} is an encoder; allowed: decoder-only models")
    if section.boolean("is_encoder_decoder", False):
        section.error("is_encoder_decoder", "encoder-decoder models are not supported; allowed: decoder-only models")
    projection = section.integer("word_embed_proj_dim", None)
    hidden = section.integer(key_of(section, _NAMES["hidden"]), maximum=MAX_SIZE)
    if projection is not None and projection != hidden:
        section.error(
            "word_embed_proj_dim", f"a projected embedding is not supported; allowed: the hidden size ({hidden}), got {projection}"
        )
