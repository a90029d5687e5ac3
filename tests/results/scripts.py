"""The scripts of ``results/``, as modules."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
from matplotlib.image import imread

RESULTS = Path(__file__).parents[2] / "results"


def alike(path, other):
    """Whether two pictures are of one size and look the same; letters may differ by a hair with the version of a library."""
    one, two = (imread(picture) for picture in (path, other))
    return one.shape == two.shape and float(np.abs(one - two).mean()) < 0.005


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
