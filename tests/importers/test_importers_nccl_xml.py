import re

import pytest

from clustersim.cluster.load import check_cluster
from clustersim.errors import InputError
from clustersim.importers.nccl_xml import import_nccl_xml
from tests.importers import samples
from tests.importers.test_importers_nvidia_smi import cluster_of, nvlinks


def named(cluster, kind):
    return {(link.source, link.target): link.bandwidth_bytes_s for link in cluster.node_links if link.kind == kind}


def test_nvswitch_targets_make_one_switch(tmp_path):
    imported = import_nccl_xml(samples.hgx_h100_xml(), "topo.xml")
    cluster = cluster_of(imported, tmp_path)
    assert cluster.gpu.name == "H100-SXM5-80GB" and cluster.gpus_per_node == 8
    assert set(nvlinks(cluster).values()) == {450 * 10**9} and len(nvlinks(cluster)) == 16
    assert cluster.nic_of_gpu == tuple(range(8)) and "bandwidth: 400 Gb/s" in imported.text


def test_gpu_targets_make_the_pairs_of_a_dgx_1(tmp_path):
    imported = cluster_of(import_nccl_xml(samples.dgx_1_xml(), "t"), tmp_path)
    shipped = check_cluster("dgx-1-v100")
    assert nvlinks(imported) == nvlinks(shipped) and imported.nic_of_gpu == shipped.nic_of_gpu
    assert imported.gpu == shipped.gpu
    assert named(imported, "pcie") == named(shipped, "pcie")


def test_the_pcie_tree_of_a_dgx_a100(tmp_path):
    imported = import_nccl_xml(samples.dgx_a100_xml(), "t")
    cluster, shipped = cluster_of(imported, tmp_path), check_cluster("dgx-a100")
    assert cluster.gpu == shipped.gpu and cluster.nic_of_gpu == shipped.nic_of_gpu
    assert set(named(cluster, "pcie")) == set(named(shipped, "pcie"))
    assert set(named(cluster, "pcie").values()) == {31_510_000_000}
    assert any("mlx5_8" in unused for unused in imported.unused)


def test_links_that_differ_are_written_one_by_one(tmp_path):
    narrow = samples.hgx_h100_xml().replace('link_speed="32.0 GT/s PCIe" link_width="16"', 'link_speed="32.0 GT/s PCIe" link_width="8"', 1)
    pcie = named(cluster_of(import_nccl_xml(narrow, "t"), tmp_path), "pcie")
    assert pcie["pcie0", "host"] == pcie["host", "pcie0"] == 31_510_000_000
    assert pcie["gpu0", "pcie0"] == pcie["pcie1", "host"] == 63_020_000_000


def test_gpus_with_unequal_uplinks(tmp_path):
    one = '<nvlink target="0000:05:00.0" count="4" tclass="0x068000"/>'
    cluster = cluster_of(import_nccl_xml(samples.hgx_h100_xml().replace(one, "", 1), "t"), tmp_path)
    assert nvlinks(cluster)["gpu0", "nvswitch"] == 14 * 25 * 10**9 and nvlinks(cluster)["gpu1", "nvswitch"] == 450 * 10**9


def test_a_gpu_on_the_host_and_a_slow_nic(tmp_path):
    text = samples.system(
        samples.gpu_xml(0, "0000:01:00.0", 80, "0x20b2", []), samples.net_xml("eth0", "0000:02:00.0", speed=-1, latency="20.0")
    )
    imported = import_nccl_xml(text, "t")
    cluster = cluster_of(imported, tmp_path)
    links = {(link.source, link.target): link for link in cluster.node_links}
    assert ("gpu0", "host") in links and ("nic0", "host") in links
    assert links["nic0", "network"].bandwidth_bytes_s == 1_250_000_000, "NCCL takes 10 Gb/s where the speed is unknown"
    assert links["nic0", "network"].latency_ps == 10 * 10**6


def test_nics_of_different_speed_take_the_lowest():
    text = samples.hgx_h100_xml().replace('speed="400000"', 'speed="200000"', 1)
    imported = import_nccl_xml(text, "t")
    assert "bandwidth: 200 Gb/s" in imported.text and any("NICs differ" in note for note in imported.notes)


def test_uneven_uplinks_are_described_as_they_are():
    def description(other):
        text = samples.hgx_h100_xml()
        begin = text.index("<nvlink", text.index('<gpu dev="7"'))
        text = text[:begin] + other + text[text.index("</gpu>", begin) :]
        return next(line for line in import_nccl_xml(text, "t").text.split("\n") if line.startswith("description"))

    nine = '<nvlink target="0000:05:00.0" count="9" tclass="0x068000"/>'
    assert "NVSwitch with 9 to 18 NVLinks a GPU" in description(nine)
    assert "NVSwitch with 0 to 18 NVLinks a GPU" in description("")
    assert "NVSwitch with 18 NVLinks a GPU" in description(nine + nine.replace("05", "06"))


@pytest.mark.parametrize("speed", ['speed="0" ', 'speed="-1" ', ""])
def test_a_speed_that_the_file_does_not_say_is_marked(speed):
    text = samples.hgx_h100_xml().replace('speed="400000" ', speed)
    imported = import_nccl_xml(text, "t")
    (line,) = [line for line in imported.text.split("\n") if "10 Gb/s" in line]
    assert "# assumed: the 10 Gb/s that NCCL takes" in line and "# <net speed>" not in imported.text
    assert any("does not say the speed of mlx5_0, mlx5_1" in note for note in imported.notes)


def test_why_a_nic_is_not_used():
    def unused(*nics):
        gpu = samples.gpu_xml(0, "0000:01:00.0", 80, "0x20b2", [])
        named = [samples.net_xml(f"mlx5_{i}", f"0000:0{i + 2}:00.0", speed) for i, speed in enumerate(nics)]
        box = samples.system(samples.pci("0000:11:00.0", gpu + "".join(named)), samples.net_xml("far", "0000:91:00.0"))
        imported = import_nccl_xml(box, "t")
        return [word for word in imported.unused if word.startswith(("mlx5", "far"))]

    assert unused(200000, 100000) == ["mlx5_1: others as near are faster", "far: no GPU has it as its nearest NIC"]
    assert unused(200000, -1)[0] == "mlx5_1: others as near are faster"
    assert unused(200000, 200000)[0] == "mlx5_1: the GPUs nearest to it have others as near"


def test_a_pcie_speed_that_the_file_does_not_say_is_marked():
    text = samples.hgx_h100_xml()
    every = import_nccl_xml(re.sub(r' link_speed="[^"]*"', "", text), "t")
    assert re.search(r"bandwidth: 63 GB/s +# assumed: PCIe 5.0 x16", every.text) and "<pci link_speed" not in every.text
    assert any("the PCIe links have no speed" in note for note in every.notes)
    wide = import_nccl_xml(text.replace(' link_width="16"', ""), "t")
    assert any("16 lanes are assumed" in note for note in wide.notes) and wide.text == import_nccl_xml(text, "t").text


def test_what_is_left_out_is_said():
    text = samples.hgx_h100_xml().replace("</gpu>", '<c2c bw="44712" count="5"/></gpu>', 1)
    text = text.replace('target="0000:05:00.0" count="4" tclass="0x068000"', 'target="0000:ff:00.0" count="4" tclass="0x030200"', 1)
    imported = import_nccl_xml(text, "t")
    assert any(unused.startswith("<c2c>:") for unused in imported.unused)
    assert any("4 NVLinks go to a GPU that is not in the file" in note for note in imported.notes)


def test_gpus_are_ordered_by_rank(tmp_path):
    text = samples.dgx_1_xml()
    text = text.replace('dev="0" sm="70" rank="0"', 'dev="0" sm="70" rank="x"')
    text = text.replace('rank="7"', 'rank="0"').replace('rank="x"', 'rank="7"')
    links = nvlinks(cluster_of(import_nccl_xml(text, "t"), tmp_path))
    assert links["gpu7", "gpu3"] == 50 * 10**9, "what was GPU 0 is GPU 7"
    bare = re.sub(r' rank="\d"', "", samples.dgx_1_xml()).replace('<gpu dev="3"', "<gpu")
    assert any("order of the file" in note for note in import_nccl_xml(bare, "t").notes)


def test_the_gpu_by_device_by_capability_by_option():
    text = samples.dgx_a100_xml()
    assert "A100-SXM4-40GB" in import_nccl_xml(text.replace("0x20b2", "0x20b0"), "t").text
    assert any("compute capability 80" in note for note in import_nccl_xml(text.replace("0x20b2", "0x9999"), "t").notes)
    with pytest.raises(InputError, match=r"^t: no shipped topology has this GPU .device 0x9999 sm 89.; --gpu must name one"):
        import_nccl_xml(text.replace("0x20b2", "0x9999").replace('sm="80"', 'sm="89"'), "t")
    assert "V100-SXM2-32GB" in import_nccl_xml(text, "t", gpu="V100-SXM2-32GB").text
    assert 'name: "my box"' in import_nccl_xml(text, "t", name="my box").text


GOOD = samples.dgx_1_xml()
BOMB = '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<system version="1"><cpu numaid="&b;"/></system>'
EXTERNAL = '<?xml version="1.0"?>\n<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<system>&x;</system>'


@pytest.mark.parametrize(
    "text, message",
    [
        ("<system>" + "<gpu/>" * 600 + "</system>", "^t:1: more than 512 <gpu>"),
        (GOOD.replace('device="0x1db5" ', 'device="a&#10;b" ').replace('sm="70"', 'sm="' + "7" * 5000 + '"'),
         r"no shipped topology has this GPU"),
        (BOMB, r"^t:1: document types .DTD. and entities are not allowed"),
        (EXTERNAL, r"^t:2: document types .DTD. and entities are not allowed"),
        ('<!DOCTYPE s SYSTEM "http://127.0.0.1/x.dtd"><system/>', "^t:1: document types"),
        ("<system>&x;</system>", "^t:1: not valid XML: undefined entity"),
        (GOOD[:500], r"^t:\d+: not valid XML: "),
        ("<system>\n<cpu>\n</system>", "^t:3: not valid XML: mismatched tag"),
        ("", "^t: the file is empty"),
        ("\x00\x01\xff", "is not text"),
        ("not xml", "^t:1: not valid XML"),
        ("<graphs/>", "expected <system> .*NCCL_GRAPH_DUMP_FILE"),
        ('<system version="1"><cpu numaid="0"/></system>', "^t: no <gpu> in the file"),
        ("<system>" + "<pci>" * 100 + "</pci>" * 100 + "</system>", "allowed: at most 60 levels"),
        ("<system>" + "<pci/>" * 30_000 + "</system>", "20,000 elements"),
        (GOOD.replace('count="2"', 'count="1"', 1), r"^t:\d+: GPU 0 has 1 NVLinks to GPU 3, which has 2 back"),
        (GOOD.replace('count="2"', 'count="many"', 1), r"^t:\d+: <nvlink count>: expected a whole number from 1 to 1,000, got 'many'"),
        (GOOD.replace(' count="2"', "", 1), "<nvlink count>: .* got nothing"),
        (GOOD.replace('rank="3"', 'rank="-3"'), "<gpu rank>: expected a whole number"),
        (GOOD.replace('speed="100000"', 'speed="fast"', 1), "<net speed>: expected a whole number"),
        (GOOD.replace("8 GT/s", "9 GT/s", 1), "<pci link_speed>: unknown '9 GT/s'; allowed: 2.5, 5, 8"),
        (GOOD.replace('link_width="16"', 'link_width="160"', 1), "<pci link_width>: expected a whole number from 0 to 32, got '160'"),
        (GOOD.replace('latency="0.000000"', 'latency="-1"', 1), "<net latency>: expected microseconds, got '-1'"),
        (GOOD.replace("0x8393", "0x8394", 1), "^t: holds 2 hosts"),
        (GOOD.replace("0000:07:00.0", "0000:06:00.0"), "^t:12: <pci busid>: '0000:06:00.0' is that of line 4 too; expected each once"),
        (GOOD.replace('rank="1"', 'rank="0"'), "^t:13: <gpu rank>: '0' is that of line 5 too"),
        (GOOD.replace('<gpu dev="1"', '<gpu dev="0"'), "^t:13: <gpu dev>: '0' is that of line 5 too"),
        (GOOD.replace('target="0000:0a:00.0"', 'target="0000:07:00.0"', 1), "^t:7: <nvlink target>: '0000:07:00.0' is that of line 6 too"),
    ],
)
def test_malformed_xml_is_refused_with_its_line(text, message):
    with pytest.raises(InputError, match=message) as error:
        import_nccl_xml(text, "t")
    assert "\n" not in str(error.value)
