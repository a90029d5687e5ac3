"""Kinds of op and what each counts as; the parts of a layer that an op may cover."""

COMPUTE = ("forward", "recompute", "backward", "input", "weight")
COMMUNICATION = {"tensor": "tensor", "reduce": "data", "gather": "data", "send": "pipeline", "recv": "pipeline"}
KINDS = (*COMPUTE, *COMMUNICATION)
KIND_CODE = {name: code for code, name in enumerate(KINDS)}
PARTS = ("", "attention", "core", "mlp", "head")
PART_CODE = {name: code for code, name in enumerate(PARTS)}
