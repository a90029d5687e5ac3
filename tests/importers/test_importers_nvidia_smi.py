import re

import pytest

from clustersim.cluster.load import check_cluster
from clustersim.errors import InputError
from clustersim.importers.nvidia_smi import import_nvidia_smi
from tests.importers import samples


def cluster_of(imported, tmp_path):
    path = tmp_path / "imported.yaml"
    path.write_text(imported.text)
    return check_cluster(path)


def nvlinks(cluster):
    return {(link.source, link.target): link.bandwidth_bytes_s for link in cluster.node_links if link.kind == "nvlink"}


def test_nv18_between_all_gpus_is_one_switch_with_450_gb_a_second_each_way(tmp_path):
    imported = import_nvidia_smi(samples.hgx_h100(), "topo.txt")
    links = nvlinks(cluster_of(imported, tmp_path))
    assert len(links) == 16 and set(links.values()) == {450 * 10**9}
    assert all("nvswitch" in pair for pair in links)
    assert any("H100" in note and "assumed" in note for note in imported.notes)


def test_nv12_is_an_a100_on_a_switch_and_nv6_a_v100(tmp_path):
    a100 = cluster_of(import_nvidia_smi(samples.dgx_a100(), "t"), tmp_path)
    assert a100.gpu.name == "A100-SXM4-80GB" and set(nvlinks(a100).values()) == {300 * 10**9}
    v100 = cluster_of(import_nvidia_smi(samples.dgx_2(), "t"), tmp_path)
    assert v100.gpus_per_node == 16 and set(nvlinks(v100).values()) == {150 * 10**9}


def test_a_dgx_1_has_pairs_that_add_up_to_six_links_a_gpu(tmp_path):
    cluster = cluster_of(import_nvidia_smi(samples.dgx_1(), "t"), tmp_path)
    links = nvlinks(cluster)
    assert {pair: bandwidth // (25 * 10**9) for pair, bandwidth in links.items() if pair[0] < pair[1]} == {
        (f"gpu{a}", f"gpu{b}"): count for (a, b), count in samples.DGX_1_PAIRS.items()
    }
    for gpu in range(8):
        assert sum(bandwidth for pair, bandwidth in links.items() if pair[0] == f"gpu{gpu}") == 6 * 25 * 10**9
    assert cluster.nic_of_gpu == (0, 0, 1, 1, 2, 2, 3, 3) and cluster.gpu.name.startswith("V100")


def test_the_imported_dgx_1_is_the_shipped_one(tmp_path):
    imported, shipped = cluster_of(import_nvidia_smi(samples.dgx_1(), "t"), tmp_path), check_cluster("dgx-1-v100")
    assert sorted(map(str, imported.node_links)) == sorted(map(str, shipped.node_links))


@pytest.mark.parametrize("sample, shipped", [("dgx_a100", "dgx-a100"), ("dgx_2", "dgx-2h")])
def test_the_links_of_an_imported_dgx_are_those_of_the_shipped_one(sample, shipped, tmp_path):
    imported = cluster_of(import_nvidia_smi(samples.TOPO_TABLES[sample](), "t"), tmp_path)
    expected = check_cluster(shipped)
    assert sorted(map(str, imported.node_links)) == sorted(map(str, expected.node_links))
    assert imported.nic_of_gpu == expected.nic_of_gpu


def test_each_gpu_gets_the_nic_on_its_own_switch_and_others_are_left_out(tmp_path):
    imported = import_nvidia_smi(samples.hgx_h100(), "t")
    assert cluster_of(imported, tmp_path).nic_of_gpu == (7, 6, 5, 4, 3, 2, 1, 0)
    assert any("NIC0 (mlx5_bond_0)" in unused for unused in imported.unused)
    assert "NIC8 (mlx5_8)" in imported.text


def test_bridged_pairs_are_a_mesh_and_the_rest_goes_over_the_host(tmp_path):
    cluster = cluster_of(import_nvidia_smi(samples.bridged_pairs(), "t", network="100 Gb/s"), tmp_path)
    links = nvlinks(cluster)
    assert set(links) == {("gpu0", "gpu1"), ("gpu1", "gpu0"), ("gpu2", "gpu3"), ("gpu3", "gpu2")}
    assert set(links.values()) == {300 * 10**9}
    assert ("nic0", "host") in {(link.source, link.target) for link in cluster.node_links}
    assert cluster.nic_of_gpu == (0, 0, 0, 0)


def test_a_box_without_nvlink_needs_the_name_of_its_gpu(tmp_path):
    with pytest.raises(InputError, match=r"^pcie.txt: the codes do not tell which GPU this is; --gpu must name it: .*A10-24GB"):
        import_nvidia_smi(samples.pcie_box(), "pcie.txt")
    imported = import_nvidia_smi(samples.pcie_box(), "pcie.txt", gpu="A10")
    cluster = cluster_of(imported, tmp_path)
    assert cluster.gpu.name == "A10-24GB" and not nvlinks(cluster) and cluster.gpus_per_node == 4


def test_a_section_to_fill_in_is_marked_and_loads(tmp_path):
    imported = import_nvidia_smi(samples.pcie_box(), "t", gpu="fill-in")
    assert "TO FILL IN" in imported.text and cluster_of(imported, tmp_path).gpu.name == "fill-in"


def test_four_gpus_with_nv6_may_be_two_machines():
    text = samples.table(4, 0, lambda a, b: "NV6")
    with pytest.raises(InputError, match=r"the codes fit V100 and H100 which|the codes fit H100 and V100 which"):
        import_nvidia_smi(text, "t")
    assert "layout: switch" in import_nvidia_smi(text, "t", gpu="V100-SXM2-32GB").text
    assert "layout: mesh" in import_nvidia_smi(text, "t", gpu="H100").text


def test_a_gpu_of_unknown_generation_goes_by_the_pattern():
    text = samples.table(8, 0, lambda a, b: "NV8")
    imported = import_nvidia_smi(text, "t", gpu="fill-in")
    assert re.search(r"bandwidth: 200 GB/s +# 8 links", imported.text) and any("not known" in note for note in imported.notes)


def test_options_change_the_file(tmp_path):
    text = samples.dgx_a100()
    assert "bandwidth: 100 Gb/s" in import_nvidia_smi(text, "t", network="100 Gb/s").text
    assert "name: box" in import_nvidia_smi(text, "t", name="box").text
    limited = cluster_of(import_nvidia_smi(text, "t", nics=["mlx5_0", "NIC4"]), tmp_path)
    assert limited.nic_of_gpu == (0, 0, 0, 1, 1, 1, 0, 1), "two GPUs beside each NIC, the other four shared out"
    assert "A100-SXM4-40GB" in import_nvidia_smi(text, "t", gpu="A100-SXM4-40GB").text


@pytest.mark.parametrize("separator", ["\t", "   "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_line_ends_and_underlines_make_no_difference(separator, end):
    plain = samples.table(4, 0, lambda a, b: "NV18")
    other = "$ nvidia-smi topo -m\n" + samples.table(4, 0, lambda a, b: "NV18", separator, underline=True)
    assert import_nvidia_smi(other.replace("\n", end), "t") == import_nvidia_smi(plain, "t")


def test_without_affinity_columns():
    text = samples.table(2, 0, lambda a, b: "NV12", affinity=())
    assert "pairs: [[0, 1, 12]]" in import_nvidia_smi(text, "t").text


GOOD = samples.hgx_h100(underline=False)
LINES = GOOD.split("\n")


@pytest.mark.parametrize(
    "text, message",
    [
        ("\n".join(LINES[:6]), "t:6: the row of GPU5 is missing; is the table cut off"),
        (GOOD[: GOOD.index("GPU3\tNV18") + 14], "t:5: GPU3: 2 codes for 17 columns"),
        (GOOD.replace("PIX", "PIZ", 1), "t:2: GPU0: 'PIZ' in column NIC8 is no code; allowed: X, NV and a number"),
        (GOOD.replace("GPU2\tNV18\tNV18", "GPU2\tNV18\tNV17"), "t:4: GPU2: NV17 to GPU1, but NV18 the other way"),
        (GOOD.replace("GPU2\tNV18\t", "GPU2\t"), "t:4: GPU2: X in column GPU1"),
        (GOOD.replace("GPU0\t X ", "GPU0\tSYS"), "t:2: GPU0: SYS in column GPU0; expected X where a device meets itself"),
        (GOOD.replace("\nGPU6", "\nGPU9"), "t:8: expected the row of GPU6, got 'GPU9'"),
        (GOOD.replace("GPU1\tGPU2", "GPU1\tGPU1", 1), "each device once"),
        (GOOD.replace("NV18", "NV0"), "'NV0' in column GPU1 is no code"),
        ("hello\nworld\n", "no line of column names"),
        ("\tGPU\u0663\tCPU Affinity\nGPU0\tX\t0-9\n", "no line of column names"),  # a digit, but none of a GPU's number
        ("", "the file is empty"),
        ("\x00\x01\x02binary\xff", "is not text"),
        ("PK\x03\x04", "is not text"),
        ("x" * 600_000, "larger than"),
    ],
)
def test_malformed_text_is_refused_with_its_line(text, message):
    with pytest.raises(InputError, match=message) as error:
        import_nvidia_smi(text, "t")
    assert "\n" not in str(error.value)


def test_a_switch_must_show_the_same_number_everywhere():
    text = samples.table(8, 0, lambda a, b: "SYS" if b == 7 else "NV18")
    with pytest.raises(InputError, match=r"t:2: GPU0: its NVLinks add up to 108, but H100 has 18 NVLinks"):
        import_nvidia_smi(text, "t")
    with pytest.raises(InputError, match="NV18, but A100 has 12 NVLinks"):
        import_nvidia_smi(GOOD, "t", gpu="A100")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"gpu": "H900"}, "^--gpu: unknown GPU 'H900'.*allowed: .*H100-SXM5-80GB"),
        ({"gpu": ""}, "^--gpu: unknown GPU"),
        ({"network": "400"}, "^--network: 400 has no unit"),
        ({"network": "0 Gb/s"}, "^--network: must be more than zero"),
        ({"nics": ["mlx5_99"]}, "^--nics: no NIC 'mlx5_99' in t.*allowed: NIC0"),
        ({"name": "a\nb"}, "^--name: expected a name"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        import_nvidia_smi(GOOD, "t", **options)


def test_one_gpu(tmp_path):
    cluster = cluster_of(import_nvidia_smi(samples.table(1, 1, lambda a, b: "PHB"), "t", gpu="A10"), tmp_path)
    assert cluster.gpus_per_node == 1 and cluster.nic_of_gpu == (0,)
