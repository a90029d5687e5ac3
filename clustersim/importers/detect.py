"""Which importer a file is for, by its first character that is no blank.

>>> topology_format('<system version="1">'), topology_format("\\tGPU0\\tGPU1")
('nccl', 'nvidia-smi')
>>> job_format('{"bf16": {"enabled": true}}'), job_format("torchrun pretrain_gpt.py")
('deepspeed', 'megatron')
"""

from __future__ import annotations

TOPOLOGY_FORMATS = ("nvidia-smi", "nccl")
JOB_FORMATS = ("megatron", "deepspeed")


def topology_format(text: str) -> str:
    """``nccl`` for XML, else ``nvidia-smi``."""
    return "nccl" if _first(text) == "<" else "nvidia-smi"


def job_format(text: str) -> str:
    """``deepspeed`` for JSON, else ``megatron``."""
    return "deepspeed" if _first(text) in ("{", "[") else "megatron"


def _first(text: str) -> str:
    return text.lstrip("\ufeff \t\r\n")[:1]
