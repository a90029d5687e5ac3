"""Values that can never be: refused before anything is simulated, where one that depends on others is a row that says why.

>>> from clustersim import document, presets
>>> from clustersim.sweeps.points import base_of
>>> from clustersim.sweeps.vary import combined, parse_field
>>> folder = presets.folder("schedules")
>>> base, field = base_of(document.load(folder / "pipeline-shapes.yaml"), folder), parse_field("steps=1,2.5,3")
>>> refuse_slips(base, [field], combined([field]))
Traceback (most recent call last):
...
clustersim.errors.InvalidValueError: --vary steps=2.5: steps: expected a whole number, got 2.5
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.document import clipped
from clustersim.errors import InputError, InvalidValueError
from clustersim.experiment import parse
from clustersim.sweeps.points import Base, resolved, texts
from clustersim.sweeps.vary import Field, Point, Value

_MOST_TRIED = 8  # combinations of a value with others: a point can be wrong before the value is looked at


def refuse_slips(base: Base, fields: Sequence[Field], points: Sequence[Point]) -> None:
    """InvalidValueError for a value of ``fields`` that its key cannot have, in whichever of the ``points``."""
    for field in fields:
        tried: dict[Value, list[Point]] = {value: [] for value in _outermost(field)}
        for point in points:
            having = tried.get(point[field.path])
            if having is not None and len(having) < _MOST_TRIED:
                having.append(point)
        for value, having in tried.items():
            _refuse(base, f"--vary {clipped(f'{field.path}={value.text}')}:", having)


def _outermost(field: Field) -> list[Value]:
    """Every text, and the ends of whole and of other numbers: of these a key allows a range."""
    whole = [value for value in field.values if isinstance(value.number, int)]
    other = [value for value in field.values if isinstance(value.number, float)]
    ends = [end(values, key=lambda value: value.number or 0) for values in (whole, other) if values for end in (min, max)]
    return [*(value for value in field.values if value.number is None), *ends]


def _refuse(base: Base, place: str, points: Sequence[Point]) -> None:
    """InvalidValueError when none of the points can be and one is refused at the ``place``."""
    slips = []
    for point in points:
        try:
            parse(resolved(base, texts(point)), base.near)
            return
        except InvalidValueError as error:
            slips += [error] if str(error).startswith(place) else []
        except InputError:
            pass  # the row will say so
    if slips:
        raise slips[0]
