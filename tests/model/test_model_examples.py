"""The examples in the documentation of clustersim.model run and are right."""

import doctest
import importlib

import pytest

MODULES = ("spec", "flops", "memory", "presets", "shape", "load", "huggingface")


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"clustersim.model.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
