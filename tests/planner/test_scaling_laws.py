"""Values worked out by hand from the constants of the papers."""

import pytest

from clustersim.planner.scaling_laws import KaplanConstants, LamyPoirierConstants, Prices, Training, bill, kaplan, lamy_poirier


def test_the_papers_batch_and_steps_of_x_160():
    # 82.0 x 160^(2/3) = 82.0 x 29.472 = 2416.7 sequences, 100,000 steps
    training = lamy_poirier(12 * 160**5, 16 * 160)
    assert training.critical_batch == pytest.approx(2416.7, abs=0.2)
    assert training.steps(training.critical_batch) == pytest.approx(1e5, rel=1e-12)


def test_a_model_of_another_shape_has_as_many_tokens_in_its_critical_batch():
    short, long = lamy_poirier(1e10, 1024), lamy_poirier(1e10, 4096)
    assert short.critical_batch * 1024 == pytest.approx(long.critical_batch * 4096, rel=1e-12)


def test_kaplan_with_constants_of_round_numbers():
    # (1e12/1e4)^0.5 = 1e4; above: 0.5/0.5 = 1; S_min = 3 / (1e4)^2 ... with alpha_s 1: above 0.5, 0.5 x 1e4 = 5000, S_min = 3e4/5000 = 6
    constants = KaplanConstants(alpha_n=0.5, n_c=1e12, alpha_s=1.0, s_c=3e4, alpha_b=1.0, b_star_tokens=6e9)
    training = kaplan(1e4, 100, constants)
    assert training.least_steps == pytest.approx(6, rel=1e-12)
    assert training.critical_batch == pytest.approx(6e9 / 15000 / 100, rel=1e-12)  # L = 1.5 x 1e4


def test_the_constants_are_those_of_the_papers():
    assert KaplanConstants() == KaplanConstants(0.077, 6.5e13, 0.76, 2.1e3, 0.21, 2.1e8)
    assert LamyPoirierConstants().batch_sequences == 82.0


@pytest.mark.parametrize(("batch", "steps"), [(100, 200), (50, 300), (1e12, 100)])
def test_steps_by_batch(batch, steps):
    """S_min 100, E_min 10,000: the critical batch of 100 takes twice the steps, half of it three times."""
    assert Training(100.0, 10_000.0).steps(batch) == pytest.approx(steps, rel=1e-6)


def test_the_bill():
    # 1,000 steps of 36 s are 10 h; 20 GPUs 200 GPU hours; 500 W and PUE 1.5: 150 kWh
    made = bill(Training(0.0, 8000.0), Prices(2.5, 500.0, 1.5), gpus=20, batch=8, sequence=10, step_s=36.0)
    assert made == pytest.approx(
        {"steps": 1000, "tokens": 80_000, "days": 10 / 24, "gpu_hours": 200, "gpu_years": 200 / 8766, "cost": 500, "energy_kwh": 150}
    )
    assert bill(Training(0.0, 1.0), Prices(), 1, 1, 1, 1.0)["cost"] is None
