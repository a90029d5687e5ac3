"""Makespans of closed_forms: F = 1, B = 2 (F = I = W = 1) of a whole rank and micro-batch, sends that do not block."""

DELAYS = (0, 0.25, 0.5)
MAKESPANS = [
    ("gpipe", 4, 1, 8, (33, 34.5, 36)),
    ("1f1b", 4, 1, 8, (33, 37, 41)),
    ("interleaved-1f1b", 4, 2, 8, (28.5, 32, 35.5)),
    ("breadth-first", 4, 2, 8, (28.5, 30, 31.5)),
    ("zb-h1", 4, 1, 8, (27, 30, 33)),
    ("1f1b", 8, 1, 16, (69, 79, 89)),
    ("interleaved-1f1b", 8, 4, 16, (53.25, 68.75, 92)),
    ("gpipe", 4, 1, 2, (15,)),
    ("1f1b", 4, 1, 2, (15,)),
]
"""Name, p, v, m, and the makespan by delay."""
