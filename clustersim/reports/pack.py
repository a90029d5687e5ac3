"""Values as a page holds them: arrays in base64, JSON that no text can break out of, colours, the unit of a time axis."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

import numpy as np

from clustersim.plots.style import IDLE, rgb, shades

_UNITS = (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3))


def packed(values: np.ndarray, dtype: str) -> dict[str, Any]:
    """An array, of one or two dimensions, as plotly takes it; ``dtype``: u1, i4, f8, ...

    >>> packed(np.array([1, 2]), "u1")
    {'dtype': 'u1', 'bdata': 'AQI='}
    """
    array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    shape = {} if array.ndim == 1 else {"shape": ", ".join(map(str, array.shape))}
    return {"dtype": dtype, "bdata": base64.b64encode(array.tobytes()).decode("ascii"), **shape}


def narrowest(values: np.ndarray) -> str:
    """The shortest type that holds all of these whole numbers as :func:`packed` takes it; numbers of 8 bytes for large ones.

    >>> narrowest(np.array([-1, 127])), narrowest(np.array([200])), narrowest(np.array([2**40])), narrowest(np.array([]))
    ('i1', 'i2', 'f8', 'i1')
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return next((f"i{size}" for size in (1, 2, 4) if -(1 << 8 * size - 1) <= low and high < 1 << 8 * size - 1), "f8")


def json_text(value: Any) -> str:
    """JSON that may stand in a script: nothing in it ends the element.

    >>> json_text("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def escaped(text: object) -> str:
    """Text as HTML between tags, for the page and for the labels of a chart, which know no other entities; long names are cut.

    >>> escaped("<b>")
    '&lt;b&gt;'
    """
    words = str(text)
    return html.escape(words if len(words) <= 200 else words[:199] + "…", quote=False)


def axis_unit(span_ps: int) -> tuple[str, int]:
    """Unit of a time axis and its ps.

    >>> axis_unit(5 * 10**9), axis_unit(5)
    (('ms', 1000000000), ('ns', 1000))
    """
    return next(((name, size) for name, size in _UNITS if span_ps >= size), _UNITS[-1])


def hexadecimal(colour: tuple[float, float, float]) -> str:
    """
    >>> hexadecimal((1.0, 0.0, 0.5))
    '#ff0080'
    """
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)


def kind_colours(kind: str) -> list[str]:
    """The two shades of a kind."""
    return [hexadecimal(shade) for shade in shades(kind)]


def paler(kind: str, strength: float) -> str:
    """A kind laid over idle ground."""
    pairs = zip(shades(kind)[0], rgb(IDLE), strict=True)
    red, green, blue = (strength * top + (1 - strength) * ground for top, ground in pairs)
    return hexadecimal((red, green, blue))
