"""The scripts of ``results/``, as modules."""

import importlib.util
import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.image import imread

RESULTS = Path(__file__).parents[2] / "results"


# Before 3.11 letters are a little narrower: then only the means of squares of so many pixels are compared.
_SIDE, _MOST = (1, 0.005) if matplotlib.__version_info__ >= (3, 11) else (20, 0.01)


def alike(path, other):
    """Whether two pictures are of one size and look the same; letters may differ by a hair with the version of a library."""
    one, two = (_squares(imread(picture)) for picture in (path, other))
    return one.shape == two.shape and float(np.abs(one - two).mean()) < _MOST


def _squares(picture):
    """The means of the squares of a picture; rows and columns past the last square are left out."""
    rows, columns = (size // _SIDE for size in picture.shape[:2])
    whole = picture[: rows * _SIDE, : columns * _SIDE]
    return whole.reshape(rows, _SIDE, columns, _SIDE, -1).mean(axis=(1, 3))


def script(folder):
    """``results/FOLDER/make.py``, which finds the modules beside it."""
    path = RESULTS / folder / "make.py"
    spec = importlib.util.spec_from_file_location(f"make_{folder.replace('-', '_')}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module
