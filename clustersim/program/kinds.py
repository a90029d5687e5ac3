"""Kinds of op and what each counts as; the parts of a layer that an op may cover; kinds of memory."""

COMPUTE = ("forward", "recompute", "backward", "input", "weight", "optimizer")
COMMUNICATION = {
    "tensor": "tensor", "context": "context", "expert": "expert", "reduce": "data", "gather": "data", "send": "pipeline",
    "recv": "pipeline",
    "offload": "offload", "fetch": "offload",
}  # fmt: skip
KINDS = (*COMPUTE, *COMMUNICATION)
KIND_CODE = {name: code for code, name in enumerate(KINDS)}
PARTS = ("", "attention", "core", "mlp", "experts", "head", "embedding")
PART_CODE = {name: code for code, name in enumerate(PARTS)}
MEMORY = ("weights", "gradients", "optimizer", "buffers", "activations")
MEMORY_CODE = {name: code for code, name in enumerate(MEMORY)}
