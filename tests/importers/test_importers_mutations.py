"""Whatever is done to an input, an importer gives a file that loads, or one line that says what is wrong."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clustersim.cluster.load import check_cluster
from clustersim.document import loads
from clustersim.errors import InputError
from clustersim.importers.deepspeed import import_deepspeed
from clustersim.importers.megatron import import_megatron
from clustersim.importers.nccl_xml import import_nccl_xml
from clustersim.importers.nvidia_smi import import_nvidia_smi
from tests.importers import samples

CASES = {
    **{f"smi-{name}": (make(), lambda text: import_nvidia_smi(text, "t")) for name, make in samples.TOPO_TABLES.items()},
    "smi-pcie": (samples.pcie_box(), lambda text: import_nvidia_smi(text, "t", gpu="A10")),
    **{f"xml-{name}": (make(), lambda text: import_nccl_xml(text, "t")) for name, make in samples.XML_DUMPS.items()},
    "megatron-175b": (samples.SCRIPT_175B, lambda text: import_megatron(text, "t")),
    "megatron-llama": (samples.SCRIPT_LLAMA, lambda text: import_megatron(text, "t", gpus=32)),
    "megatron-mixture": (samples.SCRIPT_MIXTURE, lambda text: import_megatron(text, "t")),
    "deepspeed": (samples.DEEPSPEED, lambda text: import_deepspeed(text, "t", model="llama2-7b", gpus=32)),
}
PIECES = ["", " ", "\t", "\n", "X", "NV1", "SYS", "PIX", "0", "9" * 30, "-1", '"', "'", "<", ">", "/", "&a;", "$", "${", "(", ")", "\\",
          "{", "}", ":", ",", "#",
          "--num-layers", "\x1b[4m", "\0", "é", "\ud800", "\u2028", "²", "null", "true", "1e9"]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutations_never_raise_anything_but_input_errors(case, data, tmp_path):
    text, load = CASES[case]
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 1, 2, 5, 40, 400, 10**6]))
        text = text[:begin] + data.draw(st.sampled_from(PIECES) | st.text(max_size=4)) + text[begin + length :]
    try:
        imported = load(text)
    except InputError as error:
        assert "\n" not in str(error), error
        return
    loads(imported.text, "imported.yaml")
    if not case.startswith(("megatron", "deepspeed")):
        (tmp_path / "imported.yaml").write_text(imported.text)
        check_cluster(tmp_path / "imported.yaml")


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=300))
def test_any_text_at_all(text):
    for _, load in CASES.values():
        with contextlib.suppress(InputError):
            load(text)
