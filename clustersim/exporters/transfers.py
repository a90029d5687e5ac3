"""What a kind of communication is in other programs' words."""

from __future__ import annotations

import pandas as pd

from clustersim.analysis.streams import PROFILED_COMMUNICATION
from clustersim.document import shown
from clustersim.errors import InputError
from clustersim.program.kinds import COMMUNICATION, COMPUTE

COMPUTES = (*COMPUTE, "kernel")
COPY = "copy"
HOST = ("offload", "fetch")
POINT_TO_POINT = ("send", "recv")
_COLLECTIVE = {"tensor": "all_reduce", "context": "all_gather", "expert": "all_to_all", "reduce": "all_reduce", "gather": "all_gather"}
_KNOWN = (*COMPUTES, COPY, *COMMUNICATION, *PROFILED_COMMUNICATION)


def collectives(ops: pd.DataFrame) -> dict[str, str]:
    """The collective that each kind of op in the table is, by kind.

    The table says for whom a transfer is, and not how it is done. Tensor parallelism reduces over all, context parallelism gathers,
    experts exchange; a job that gathers parameters (ZeRO) reduces gradients by scattering them. InputError for an unknown kind.

    >>> collectives(pd.DataFrame({"kind": ["forward", "reduce", "gather"]}))
    {'gather': 'all_gather', 'reduce': 'reduce_scatter'}
    >>> collectives(pd.DataFrame({"kind": ["reduce", "send"]}))
    {'reduce': 'all_reduce'}
    """
    kinds = sorted(set(ops["kind"].astype(str).unique().tolist()))
    unknown = [kind for kind in kinds if kind not in _KNOWN]
    if unknown:
        raise InputError(f"ops: kind {shown(unknown[0])} is not known; allowed: {', '.join(_KNOWN)}")
    found = {kind: _COLLECTIVE.get(kind, kind) for kind in kinds if kind in _COLLECTIVE or kind in PROFILED_COMMUNICATION}
    if "gather" in found and "reduce" in found:
        found["reduce"] = "reduce_scatter"
    return found
