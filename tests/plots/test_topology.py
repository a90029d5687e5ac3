from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib import pyplot
from matplotlib.patches import Arc
from matplotlib.text import Text

from clustersim import presets
from clustersim.cluster.describe import describe
from clustersim.cluster.fabrics import Tiers
from clustersim.cluster.load import check_cluster, load_cluster
from clustersim.cluster.meshes import Dragonfly
from clustersim.errors import InputError
from clustersim.plots import sketch as sketches
from clustersim.plots import topology
from clustersim.plots.routers import router_sketch
from clustersim.plots.sketch import level_sketch
from clustersim.plots.topology import draw_topology

REAL = [name for name in presets.names("topologies") if name != "ideal"]
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def cluster_of(name, nodes):
    return load_cluster(name, gpus=1, nodes=nodes, overrides={}, near=Path(), place="here")


def own(folder, name, network, mesh=0, nics=2):
    """A cluster of nodes of two GPUs on an NVSwitch, or of so many in a full mesh."""
    pairs = [[a, b, 1] for a in range(mesh) for b in range(a + 1, mesh)]
    layout = f"layout: mesh, pairs: {pairs}" if mesh else "layout: switch"
    (folder / f"{name}.yaml").write_text(
        f"gpu: {{name: G, memory: 16 GB, memory_bandwidth: 500 GB/s, peak: {{fp16: 100 TFLOP/s}}, efficiency: 0.5}}\n"
        f"node:\n  gpus: {mesh or 2}\n  nics: {nics}\n  pcie: {{bandwidth: 30 GB/s, latency: 1 us}}\n"
        f"  nvlink: {{{layout}, bandwidth: 100 GB/s, latency: 1 us}}\n"
        f"network: {{bandwidth: 10 GB/s, latency: 1 us, {network}}}\n"
    )
    return check_cluster(folder / f"{name}.yaml")


def levels(cluster):
    mesh = cluster.fabric.layout in ("torus", "dragonfly")
    counts = dict.fromkeys(sketches.ROWS, 2)  # the texts of rows do not matter here
    return level_sketch(cluster, counts, only_node=mesh)


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


def test_a_torus_shows_the_links_around():
    torus = router_sketch(check_cluster("torus-2d"))
    assert len(torus.places) == 64 and len(torus.links) == 2 * 8 * 7 and len(torus.stubs) == 2 * 2 * 8
    small = router_sketch(cluster_of("dragonfly-a100", 5000))
    assert len(small.places) == 6 * 16


def test_routers_without_a_node_are_told_apart():
    torus = router_sketch(cluster_of("torus-3d", 10))
    assert torus.idle == {f"router{number}" for number in range(10, 64)}
    assert "10 of 64 have a node, those in white have none" in torus.texts[-1][2]
    assert not router_sketch(check_cluster("torus-3d")).idle
    assert len(router_sketch(cluster_of("dragonfly-a100", 100)).idle) == 32 - 25  # four nodes a router


@pytest.mark.parametrize("name, nodes", [(name, None) for name in REAL] + [("dgx-h100-rail", 100_000), ("dgx-a100-fat-tree", 2000)])
def test_devices_of_a_row_do_not_overlap_and_links_pass_beside_them(name, nodes):
    sketch = levels(check_cluster(name) if nodes is None else cluster_of(name, nodes))
    rows = {}
    for x, y in sketch.places.values():
        rows.setdefault(y, []).append(x)
    for xs in rows.values():
        assert all(b - a > 0.99 for a, b in zip(sorted(xs), sorted(xs)[1:], strict=False))
    assert not behind(sketch)


def behind(sketch):
    """(link, device) where a straight link passes through the box of a device that it does not join."""
    flat = {frozenset(ends) for ends in sketch.flat()}
    links = [ends for ends in sketch.links if ends not in flat]
    ports = topology._ports(sketch, links)
    found = []
    for ends in links:
        (x, low), (to_x, high) = sorted((ports[end, ends] for end in ends), key=lambda port: port[1])
        for name, (at, y) in sketch.places.items():
            wide, tall = sketch.half(name)
            for edge in (y - tall, y, y + tall):
                if name not in ends and low < edge < high and abs(x + (to_x - x) * (edge - low) / (high - low) - at) < wide:
                    found.append((sorted(ends), name))
    return found


def test_each_level_of_a_tree_has_its_row_and_its_name(tmp_path):
    levels_of = "[{ports: 4}, {ports: 4, switches: 4}, {ports: 4, switches: 8}, {ports: 8, switches: 16}]"
    sketch = levels(own(tmp_path, "four", f"layout: fat-tree, levels: {levels_of}"))
    assert [text for _, text in sketch.rows[-4:]] == ["32 leaves", "32 spines (spine1)", "16 spines (spine2)", "16 cores"]
    row = dict(sketch.rows)
    for name, (_, y) in sketch.places.items():
        if name.startswith("spine"):
            assert row[y].endswith(f"({name.partition('-')[0]})")


def test_what_is_left_out_of_a_row_is_said_in_its_place():
    sketch = levels(check_cluster("dgx-h100-rail"))
    (x, y), (left, row), (right, _) = place(sketch, "… 6 more …"), sketch.places["spine8"], sketch.places["spine15"]
    assert left < x < right and y == row
    sketch = levels(cluster_of("dgx-h100-rail", 100_000))
    (x, y), (left, row), (right, _) = place(sketch, "… 24,984 more …"), sketch.places["leaf7"], sketch.places["leaf24992"]
    assert left < x < right and y == row
    sketch = levels(check_cluster("nvl72"))  # between GPUs, where no link passes
    assert place(sketch, "… 62 …")[1] == sketch.places["node0/gpu71"][1]


def place(sketch, text):
    return next((x, y) for x, y, its in sketch.texts if its == text)


def test_huge_networks_are_drawn_from_their_description(tmp_path, monkeypatch):
    monkeypatch.setattr(Tiers, "wire", None)
    monkeypatch.setattr(Tiers, "between", None)
    monkeypatch.setattr(Dragonfly, "wire", None)
    for layout in (
        "layout: leaf-spine, nodes_per_leaf: 1000000, spines: 10000",
        "layout: fat-tree, levels: [{ports: 1000}, {ports: 1000, switches: 100}, {ports: 1000, switches: 100}]",
    ):
        sketch = levels(own(tmp_path, "huge", layout))
        assert len(sketch.places) < 150 and any("9,990 more" in text or "90 more" in text for *_, text in sketch.texts)
    routers = router_sketch(own(tmp_path, "huge", "layout: dragonfly, nodes_per_router: 1, routers_per_group: 1000, global_links: 1"))
    assert len(routers.places) == 3 * 16 and "48 drawn, 2,952 more are not" in routers.texts[-1][2]
    assert len(router_sketch(own(tmp_path, "huge", "layout: torus, dimensions: [8, 8, 8, 8, 8]", nics=1)).places) <= 512


@pytest.mark.parametrize("name, nodes", [("dgx-h100-rail", 100_000), ("dgx-a100", 1), ("explicit-example", 2), ("torus-3d", 10)])
@pytest.mark.parametrize("called", [None, "a-name-" * 20, "a name " * 20])
def test_all_text_is_on_the_page_and_in_its_box(name, nodes, called):
    cluster = cluster_of(name, nodes)
    cluster = cluster if called is None else replace(cluster, name=called)
    with drawn(cluster) as figure:
        page, renderer = figure.bbox, figure.canvas.get_renderer()
        for text in figure.findobj(Text):
            box = text.get_window_extent(renderer)
            if text.get_text():
                assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()
        title = figure.texts[0].get_text().replace("\n", "")
        assert "bisection bandwidth" in title and cluster.name.replace(" ", "")[:100] in title.replace(" ", "")
        boxes = [patch.get_window_extent(renderer) for ax in figure.axes for patch in ax.patches if not isinstance(patch, Arc)]
        for text in (text for ax in figure.axes for text in ax.texts if text.get_text().isdigit()):
            inner = text.get_window_extent(renderer)
            assert any(box.x0 <= inner.x0 and inner.x1 <= box.x1 for box in boxes if box.contains(*inner.get_points().mean(0)))


@contextmanager
def drawn(cluster):
    figure = pyplot.figure()
    data = describe(cluster)
    mesh = cluster.fabric.layout in ("torus", "dragonfly")
    sketches = [level_sketch(cluster, data["devices"], only_node=mesh)] + ([router_sketch(cluster)] if mesh else [])
    topology._lay_out(figure, sketches, topology._title(cluster, data))
    figure.canvas.draw()
    yield figure
    pyplot.close(figure)


def test_a_full_mesh_is_seen_through_and_the_legend_shows_links_as_they_are_drawn(tmp_path):
    with drawn(own(tmp_path, "mesh", "layout: flat", mesh=16)) as figure:
        arcs = [patch for patch in figure.axes[0].patches if isinstance(patch, Arc)]
        legend = figure.legends[0].get_lines()[0]
        assert len(arcs) == 2 * 16 * 15 // 2 and {arc.get_alpha() for arc in arcs} == {legend.get_alpha()} and legend.get_alpha() < 0.5
        assert {arc.get_linewidth() for arc in arcs} == {legend.get_linewidth()} and legend.get_linewidth() < 1.5


def test_listed_nodes_have_their_names():
    cluster = check_cluster("explicit-example")
    assert [text for _, _, text in levels(cluster).texts] == ["node a", "node b"]
    bare = replace(cluster, gpu_names=("a0", "a1", "b0", "b1"))
    assert [text for _, _, text in levels(bare).texts] == ["a0 … a1", "b0 … b1"]


@pytest.mark.parametrize(
    "name, file, message",
    [("ideal", "a.png", "is ideal: it has no links"), ("dgx-a100", "a.gif", "unknown kind of picture '.gif'; allowed: .png, .svg, .pdf")],
)
def test_what_cannot_be_drawn_is_said_and_leaves_no_file(tmp_path, name, file, message):
    with pytest.raises(InputError, match=message):
        draw_topology(check_cluster(name), tmp_path / file)
    assert not list(tmp_path.iterdir())
