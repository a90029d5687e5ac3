"""The examples in the docstrings run, and give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "clustersim"
WITH_EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_examples_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    result = doctest.testmod(importlib.import_module(".".join(parts).removesuffix(".__init__")), optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed
