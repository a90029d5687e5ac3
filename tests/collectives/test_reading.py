"""The ``collectives`` section of a topology file."""

from fractions import Fraction
from pathlib import Path

import pytest

from clustersim.cluster.load import check_cluster
from clustersim.collectives.protocols import Protocol
from clustersim.errors import InputError

H100 = (Path(__file__).parents[2] / "topologies" / "dgx-h100.yaml").read_text(encoding="utf-8")
NODE = H100[: H100.index("collectives:")]


def read(tmp_path, section, top=NODE):
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{top}collectives: {section}\n", encoding="utf-8")
    return check_cluster(path)


def test_what_is_given_is_read(tmp_path):
    cluster = read(tmp_path, "{algorithms: [tree, ring], in_switch: 0.68, protocols: {low: {base: 2 us, nvlink: 30 ns, wire: 1.25}}}")
    assert cluster.algorithms == ("tree", "ring") and cluster.in_switch == Fraction(17, 25)
    hops = (("nvlink", 30_000), ("pcie", 0), ("network", 0), ("in_switch", 0))
    assert cluster.protocols == (Protocol("low", 2_000_000, hops, Fraction(5, 4)),)
    assert read(tmp_path, "{in_switch: 0.001}").in_switch == Fraction(1, 1000)
    for empty in ("{}", "{protocols: {}}", "{protocols: }"):
        assert read(tmp_path, empty).protocols == ()


@pytest.mark.parametrize(
    ("section", "words"),
    [
        *((f"{{protocols: {value}}}", "protocols: expected a mapping") for value in ("5", "true", "1.5", "[1]", "[[a]]", "x", "0", "[]")),
        ("{protocols: {simple: 5}}", "protocols.simple: expected a mapping"),
        ("{protocols: {simple: }}", "protocols.simple: a protocol that costs nothing would always be taken"),
        ("{algorithms: [ring, in-switch]}", "algorithms: in-switch needs `in_switch:`"),
        ("{protocols: {a.b: {base: 1 us}}}", "'a.b' is no name for a protocol"),
        ("{protocols: {simple: {wire: 0.5}}}", "allowed: 1 to 10"),
        ("{protocols: {simple: {wire: 1e-9}}}", "allowed: 1 to 10"),
        ("{protocols: {simple: {base: 5}}}", "5 has no unit"),
        ("{in_switch: 0.0004}", "in_switch: expected a number from 0.001 to 1, got 0.0004"),
        ("{in_switch: 1e-9}", "in_switch: expected a number from 0.001 to 1, got 1e-09"),
        ("{in_switch: 0}", "in_switch: expected a number"),
        ("{in_switch: 1.5}", "at most 1"),
        ("{in_switch: .nan}", "in_switch: expected a number"),
        ("{algorithms: [ring, foo]}", "unknown algorithm 'foo'; allowed: multi-ring, ring"),
        ("{algorithms: [ring, tre]}", "did you mean 'tree'?"),
        ("{algorithms: [ring, 5]}", "unknown algorithm 5"),
        ("{algorithms: [ring, [tree]]}", "unknown algorithm a list"),
        ("{algorithms: [auto]}", "unknown algorithm 'auto'"),
        ("{algorithms: [ring, tree, ring]}", "ring is given twice"),
        ("{algorithms: ring}", "expected a list"),
        ("{algorithms: []}", "expected a list"),
        ("5", "collectives: expected a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, section, words):
    with pytest.raises(InputError) as caught:
        read(tmp_path, section)
    line = NODE.count("\n") + 1
    assert words in str(caught.value) and f"cluster.yaml:{line}: " in str(caught.value) and "\n" not in str(caught.value)


def test_an_ideal_cluster_has_no_library(tmp_path):
    top = NODE[: NODE.index("node:")] + "ideal: true\n"
    with pytest.raises(InputError, match="collectives: an ideal cluster"):
        read(tmp_path, "{protocols: {simple: {base: 1 us}}}", top)
