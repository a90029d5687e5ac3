"""Which importer a file is for, by how it begins.

>>> topology_format('<system version="1">'), topology_format("\\tGPU0\\tGPU1")
('nccl', 'nvidia-smi')
>>> job_format('{"bf16": {"enabled": true}}'), job_format("torchrun pretrain_gpt.py")
('deepspeed', 'megatron')
>>> job_format("// from the wiki\\n{ // all of it"), job_format("[ -z $N ] && N=8"), job_format("{ echo; }")
('deepspeed', 'megatron', 'megatron')
"""

from __future__ import annotations

import re

TOPOLOGY_FORMATS = ("nvidia-smi", "nccl")
JOB_FORMATS = ("megatron", "deepspeed")
_BLANK = "\ufeff \t\r\n"
# An object, or a list; in a shell a blank follows either bracket, and no quote. JSON has no comments, files have.
_COMMENTS = r"(?>\s+|//[^\n]*|/\*.*?\*/)*+"
_JSON = re.compile(_COMMENTS + r"(?:\{(?:\S|\s+(?:[\"}]|//|/\*)|\s*$)|\[(?:\s*[\]{]|\s*$|[0-9\"]))", re.DOTALL)


def topology_format(text: str) -> str:
    """``nccl`` for XML, else ``nvidia-smi``."""
    return "nccl" if text.lstrip(_BLANK).startswith("<") else "nvidia-smi"


def job_format(text: str) -> str:
    """``deepspeed`` for JSON, else ``megatron``."""
    return "deepspeed" if _JSON.match(text.lstrip(_BLANK)) else "megatron"
