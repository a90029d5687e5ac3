"""What tests of pictures share."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved; the files are empty. Tests of whole pictures have a fixture of their own, which draws them."""
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, beside, **options: (figures.append(figure), beside.write_bytes(b"")))
    return figures
