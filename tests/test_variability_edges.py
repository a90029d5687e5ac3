"""What changes nothing: a noise of zero, from which a sweep begins."""

import pytest

from clustersim.errors import InputError
from clustersim.simulation import simulate
from tests.helpers import parsed

JOB = """
model: {{layers: 4, hidden: 1024, heads: 16}}
cluster: dgx-a100
parallel: {{pipeline: 2, data: 2, tensor: 8}}
strategy: {{name: 1f1b}}
batch: {{global: 4, micro: 1, sequence: 512}}
collectives: ring
variability: {variability}
"""


def test_no_noise_is_no_noise():
    without, zero = (simulate(parsed(JOB.format(variability=text))) for text in ("{}", "{jitter: 0, seed: 3}"))
    assert zero.summary["step_time_s"] == without.summary["step_time_s"]
    assert zero.summary["simulated_ranks"] == without.summary["simulated_ranks"] == 2  # one tensor rank of each stage stands for all
    assert zero.summary["symmetry_broken_by"] == []


@pytest.mark.parametrize("jitter", ["false", "-0.1", "1.5", "none of it"])
def test_what_is_no_noise_is_refused(jitter):
    with pytest.raises(InputError, match=r"jitter: expected a number(, got| from 0 to 1, got)"):
        parsed(JOB.format(variability=f"{{jitter: {jitter}}}"))
