"""Calibration files: what they give, what they refuse."""

import pytest

from clustersim import document
from clustersim.cluster.gpus import find_gpu, gpu_names
from clustersim.compute.calibration import load_calibration, read_calibration, software_of
from clustersim.compute.software import load_software, software_names
from clustersim.errors import InputError
from tests.compute.toy import calibration

WHOLE = """\
gpu: A100-SXM4-80GB
software: megatron-2022
source: by hand
matmul_efficiency: 0.5
memory_efficiency: 0.6
ramp: 70
unaligned: 0.4
overhead: 2 us
launch: 5 us
attention: {forward: {head_64: 0.5, head_128: 0.6}, backward: {head_64: 0.3}}
slowdown: 0
"""


def read(text):
    return read_calibration(document.loads(text, "own.yaml"))


def test_a_whole_file():
    own = read(WHOLE)
    assert (own.matmul_efficiency, own.memory_efficiency, own.ramp, own.unaligned) == (0.5, 0.6, 70, 0.4)
    assert (own.overhead_s, own.launch_s, own.slowdown) == (2e-6, 5e-6, 0)
    assert dict(own.attention_forward) == {64: 0.5, 128: 0.6} and dict(own.attention_backward) == {64: 0.3}
    assert own.gpu is find_gpu("A100-SXM4-80GB") and own.software is load_software("megatron-2022")


def test_like_gives_what_is_left_out():
    shipped = load_calibration("A100-SXM4-80GB", "megatron-2022")
    own = read("gpu: H100-SXM5-80GB\nsoftware: torch-2024\nsource: by hand\nlike: A100-SXM4-80GB/megatron-2022\nramp: 17")
    assert own.ramp == 17 and own.matmul_efficiency == shipped.matmul_efficiency and own.attention_forward == shipped.attention_forward
    assert own.gpu.name == "H100-SXM5-80GB" and own.software.name == "torch-2024"


def test_attention_between_head_sizes_is_in_proportion():
    own = calibration(attention_forward={64: 0.4, 128: 0.6}, attention_backward={64: 0.2})
    assert [own.attention(size, backward=False) for size in (32, 64, 96, 128, 256)] == pytest.approx([0.4, 0.4, 0.5, 0.6, 0.6])
    assert own.attention(128, backward=True) == 0.2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("matmul_efficiency: 0.5", "matmul_efficiency: 1.5"), "own.yaml:4: matmul_efficiency: expected a number above 0 and at most 1"),
        (("slowdown: 0", "slowdown: -0.1"), "own.yaml:11: slowdown: expected a number from 0 to 1, got -0.1"),
        (("overhead: 2 us", "overhead: 2"), "own.yaml:8: overhead: 2 has no unit"),
        (("ramp: 70\n", ""), "own.yaml: key 'ramp' is missing"),
        (("head_128", "head_127"), "own.yaml:10: attention.forward.head_127: unknown key; did you mean 'head_1"),
        (("gpu: A100-SXM4-80GB", "gpu: A100"), "own.yaml:1: gpu: unknown GPU 'A100'"),
        (("software: megatron-2022", "software: megatron-2012"), "own.yaml:2: software: unknown software 'megatron-2012'; did you mean"),
        (("source: by hand", "like: nothing\nsource: x"), "own.yaml:3: like: expected GPU/SOFTWARE"),
    ],
)
def test_what_is_refused(change, said):
    with pytest.raises(InputError) as error:
        read(WHOLE.replace(*change))
    assert str(error.value).startswith(said)


def test_another_gpu_than_that_of_the_cluster():
    with pytest.raises(InputError, match="gpu: is for 'A100-SXM4-80GB', and the GPU of the cluster is H100-SXM5-80GB"):
        read_calibration(document.loads(WHOLE, "own.yaml"), find_gpu("H100-SXM5-80GB"))


@pytest.mark.parametrize("gpu", gpu_names())
def test_every_shipped_file_is_right(gpu):
    for software in software_of(gpu):
        shipped = load_calibration(gpu, software)
        assert (shipped.gpu.name, shipped.software.name) == (gpu, software)
        assert shipped.gpu.multiprocessors and shipped.source


@pytest.mark.parametrize("name", software_names())
def test_every_shipped_software_is_right(name):
    software = load_software(name)
    assert software.name == name and software.optimizer_bytes > 0
    assert software.norm.forward > 0 and (software.attention == "flash" or software.scores.forward > 0)


def test_an_unknown_software():
    with pytest.raises(InputError, match=r"unknown software 'megatron-2202'; did you mean '.*'\?; allowed: .*megatron-2022"):
        load_software("megatron-2202")
