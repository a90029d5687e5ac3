from pathlib import Path

import pytest

from clustersim import presets
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.errors import InputError
from clustersim.plots import topology
from clustersim.plots.topology import draw_topology

REAL = [name for name in presets.names("topologies") if name != "ideal"]
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def cluster_of(name, nodes):
    return load_cluster(name, gpus=1, nodes=nodes, overrides={}, near=Path(), place="here")


def texts(path):
    return path.read_text()


@pytest.mark.parametrize("name", REAL)
def test_every_preset_has_a_picture_that_names_its_levels(tmp_path, name):
    cluster = check_cluster(name)
    svg = texts(draw_topology(cluster, tmp_path / "new" / "picture.svg"))
    assert name in svg and "GPU" in svg and "bisection bandwidth" in svg
    for kind, label in topology.LINK_NAMES.items():
        assert (f"{label} " in svg) == (kind in {link.kind for link in cluster.node_links})
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["picture.svg"]


@pytest.mark.parametrize("ending", topology.FORMATS)
def test_the_ending_says_the_format_and_the_same_cluster_gives_the_same_file(tmp_path, ending):
    one, two = (draw_topology(check_cluster("dgx-a100"), tmp_path / f"{name}{ending}").read_bytes() for name in ("a", "b"))
    assert one.startswith(STARTS[ending]) and one == two


def test_a_large_cluster_is_abbreviated(tmp_path):
    svg = texts(draw_topology(cluster_of("dgx-a100", 12_500), tmp_path / "large.svg"))
    assert "… 12,497 more" in svg and "100,000 GPUs" in svg and "node 12499" in svg and "1 switch" in svg
    assert len(svg) < 400_000
    assert "… 62" in texts(draw_topology(cluster_of("nvl72", 1), tmp_path / "rack.svg"))


def test_a_tree_shows_both_ways_over_the_top(tmp_path):
    svg = texts(draw_topology(check_cluster("dgx-a100-fat-tree"), tmp_path / "tree.svg"))
    for text in ("40 leaves", "2 spines", "1 core", "… 38", "network 4.8 TB/s"):
        assert text in svg


def test_a_torus_shows_the_links_around(tmp_path):
    torus = topology._routers(check_cluster("torus-2d"))
    assert len(torus.places) == 64 and len(torus.links) == 2 * 8 * 7 and len(torus.stubs) == 2 * 2 * 8
    small = topology._routers(cluster_of("dragonfly-a100", 5000))
    assert len(small.places) == 6 * 16


def test_devices_of_a_row_do_not_overlap():
    for name in REAL:
        cluster = check_cluster(name)
        rows = {}
        for x, y in topology._levels(cluster, only_node=False).places.values():
            rows.setdefault(y, []).append(x)
        for xs in rows.values():
            assert all(b - a > 0.99 for a, b in zip(sorted(xs), sorted(xs)[1:], strict=False)), name


@pytest.mark.parametrize(
    "name, file, message",
    [("ideal", "a.png", "is ideal: it has no links"), ("dgx-a100", "a.gif", "unknown kind of picture '.gif'; allowed: .png, .svg, .pdf")],
)
def test_what_cannot_be_drawn_is_said_and_leaves_no_file(tmp_path, name, file, message):
    with pytest.raises(InputError, match=message):
        draw_topology(check_cluster(name), tmp_path / file)
    assert not list(tmp_path.iterdir())
