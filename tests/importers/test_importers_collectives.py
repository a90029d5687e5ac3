"""What a library adds to the links comes along from the shipped machine with the same GPU."""

import re

import pytest

from clustersim.cli import main
from clustersim.cluster.load import check_cluster
from clustersim.importers.nccl_xml import import_nccl_xml
from clustersim.importers.nvidia_smi import import_nvidia_smi
from tests.importers import samples
from tests.importers.test_importers_nvidia_smi import cluster_of

IMPORTS = {
    "smi-h100": (lambda: import_nvidia_smi(samples.hgx_h100(), "t"), "dgx-h100"),
    "smi-a100": (lambda: import_nvidia_smi(samples.dgx_a100(), "t"), "dgx-a100"),
    "smi-v100": (lambda: import_nvidia_smi(samples.dgx_1(), "t"), "dgx-1-v100"),
    "smi-a10": (lambda: import_nvidia_smi(samples.pcie_box(), "t", gpu="A10"), "pcie-ethernet"),
    "xml-h100": (lambda: import_nccl_xml(samples.hgx_h100_xml(), "t"), "dgx-h100"),
    "xml-v100": (lambda: import_nccl_xml(samples.dgx_1_xml(), "t"), "dgx-1-v100"),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_the_section_is_that_of_the_shipped_machine(case, tmp_path):
    make, shipped = IMPORTS[case]
    imported = make()
    cluster, expected = cluster_of(imported, tmp_path), check_cluster(shipped)
    assert (cluster.protocols, cluster.algorithms, cluster.in_switch) == (expected.protocols, expected.algorithms, expected.in_switch)
    assert cluster.protocols and re.search(rf"\ncollectives: +# assumed: as in topologies/{shipped}.yaml", imported.text)
    assert any(f"that of topologies/{shipped}.yaml" in note for note in imported.notes)


def without_nvlink():
    return import_nvidia_smi(samples.pcie_box(), "t", gpu="H100")


def mesh():
    return import_nvidia_smi(samples.table(4, 0, lambda a, b: "NV6"), "t", gpu="H100")


def one_without_uplinks():
    text = samples.hgx_h100_xml()
    begin = text.index("<nvlink", text.index('<gpu dev="7"'))
    return import_nccl_xml(text[:begin] + text[text.index("</gpu>", begin) :], "t")


@pytest.mark.parametrize("make", [without_nvlink, mesh, one_without_uplinks])
def test_without_nvswitch_nothing_is_reduced_in_it(make, tmp_path):
    imported = make()
    cluster, expected = cluster_of(imported, tmp_path), check_cluster("dgx-h100")
    assert cluster.in_switch is None and cluster.algorithms == ("multi-ring", "tree")
    assert "in_switch" not in imported.text and [one.base_ps for one in cluster.protocols] == [one.base_ps for one in expected.protocols]


def test_a_gpu_to_fill_in_has_a_hint_instead(tmp_path):
    imported = import_nvidia_smi(samples.pcie_box(), "t", gpu="fill-in")
    assert not cluster_of(imported, tmp_path).protocols and "\n# collectives:                TO FILL IN" in imported.text
    assert any("no `collectives:` section" in note and "small messages" in note for note in imported.notes)


def test_a_small_message_takes_as_long_as_on_the_shipped_machine(tmp_path, capsys):
    """LL: 14.6 us and 14 steps of 0.6 us; 1.75 x 100 KB, twice on the wire, at 450 x 0.824 GB/s: 23.94 us."""
    (tmp_path / "box.yaml").write_text(import_nvidia_smi(samples.hgx_h100(), "t").text)
    assert main(["collective", "--cluster", str(tmp_path / "box.yaml"), "--size", "100KB..100KB", "--ranks", "0-7"]) == 0
    assert "23.94" in capsys.readouterr().out
