"""Reading YAML so that every complaint has a place."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clustersim.document import MAX_FILE_BYTES, Document, load, loads, nearest
from clustersim.errors import InputError


def complaint(call, *arguments):
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: [1, 2\nb: 3\n", "f.yaml:2: ", "not valid YAML"),
        ("a: 1\nb:\n\tc: 2\n", "f.yaml:3: ", r"character '\t'"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: ", "a: the key is given twice"),
        ("a: 1\n'a': 3\n", "f.yaml:2: ", "twice"),
        ("a:\n  b: {c: 1, c: 2}\n", "f.yaml:2: ", "a.b.c: the key is given twice"),
        ("a:\n- {c: 1,\n   c: 2}\n", "f.yaml:3: ", "twice"),
        ("a: &x 1\nb: *x\n", "f.yaml:2: ", "aliases (*name) are not allowed"),
        ("a: 1\nb: !!python/object:os.system 1\n", "f.yaml:2: ", "tags (tag:yaml.org,2002:python/object:os.system) are not"),
        ("a: !!int x\n", "f.yaml:1: ", "tags"),
        ("a: 1\n5: 3\n", "f.yaml:2: ", "5: a key must be a name"),
        ("a: 1\n~: 3\n", "f.yaml:2: ", "a key must be a name"),
        ("a: 1\nyes: 3\n", "f.yaml:2: ", "a key must be a name"),
        ("a: 1\n? [1, 2]\n: 3\n", "f.yaml:2: ", "a key must be a name"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: ", "single document"),
        ("a: 1\nb: \0\n", "f.yaml:2: ", r"'\x00' is not allowed"),
        ('a: "b\n', "f.yaml:2: ", "quoted scalar"),
        ("", "f.yaml: ", "empty"),
        ("# nothing\n", "f.yaml: ", "empty"),
        ("null\n", "f.yaml: ", "empty"),
        ("- a\n- b\n", "f.yaml: ", "expected a mapping of keys to values, got a list"),
        ("hello\n", "f.yaml: ", "expected a mapping of keys to values, got 'hello'"),
        ("a: " + "[" * 41 + "]" * 41, "f.yaml:1: ", "deeper than 40 levels"),
        ("a: " + "[" * 50_000, "f.yaml:1: ", "deeper than 40 levels"),
    ],
)
def test_what_is_no_good_yaml_has_a_line(text, place, words):
    message = complaint(loads, text, "f.yaml")
    assert message.startswith(place) and words in message and "\n" not in message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("1_000", 1000),
        ("-5", -5),
        ("1:20", "1:20"),
        ("0x10", "0x10"),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".inf", float("inf")),
        ("2001-99-99", "2001-99-99"),
        ("off", False),
        ("~", None),
        ("1 s", "1 s"),
        ("9" * 5000, float("inf")),
    ],
)
def test_scalars_are_what_they_look_like(text, value):
    found = loads(f"a: {text}", "f.yaml").data["a"]
    assert found == value and type(found) is type(value)


def test_merge_keys_are_keys_like_any_other():
    assert "f.yaml:2: <<: unknown key" in complaint(loads("a: 1\n<<: {b: 2}\n", "f.yaml").section, "", ("a", "b"))


def test_places_follow_the_keys_and_fall_back_to_what_encloses_them():
    read = loads("a:\n  b:\n    c: 1\n", "f.yaml")
    assert [read.place(path) for path in ("a", "a.b", "a.b.c", "a.b.x", "x", "")] == [
        "f.yaml:1", "f.yaml:2", "f.yaml:3", "f.yaml:2", "f.yaml", "f.yaml",
    ]  # fmt: skip


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    (tmp_path / "large.yaml").write_text("#" * (MAX_FILE_BYTES + 1))
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("binary.yaml", "not UTF-8 text"),
        ("large.yaml", "larger than 500 kB"),
        ("folder", "is not a file"),
        ("none.yaml", "no such file"),
        ("n" * 5000, "cannot be read: File name too long"),
    ):
        message = complaint(load, tmp_path / name)
        assert message.startswith(f"{tmp_path / name}: ") and words in message


def test_a_byte_order_mark_is_no_fault(tmp_path):
    (tmp_path / "f.yaml").write_text("\ufeffa: 1\n", encoding="utf-8")
    assert load(tmp_path / "f.yaml").data == {"a": 1}


def test_sections_name_the_nearest_key():
    read = loads("net:\n  bandwith: 1\n", "f.yaml")
    message = complaint(read.section, "net", ("bandwidth", "latency"))
    assert message == "f.yaml:2: net.bandwith: unknown key; did you mean 'bandwidth'?; allowed: bandwidth, latency"
    assert "did you mean" not in complaint(read.section, "net", ("latency",))


def test_names_that_a_file_gives_are_cut_short():
    name = "a" * 500 + "z" * 500
    read = loads(f"? {name}\n: {{link: 1}}\n", "f.yaml")
    for call in (read.section, lambda path, keys: read.error(path, "wrong")):
        message = complaint(call, name, ())
        assert "a...z" in message and len(message) < 300


@pytest.mark.parametrize(
    ("text", "call", "words"),
    [
        ("a: 2.0", lambda s: s.integer("a"), "expected a whole number, got 2.0"),
        ("a: '2'", lambda s: s.integer("a"), "expected a whole number, got '2'"),
        ("a: true", lambda s: s.integer("a"), "expected a whole number, got True"),
        ("a: 0", lambda s: s.integer("a"), "expected a whole number from 1 to 1,000,000,000,000, got 0"),
        ("a: 7", lambda s: s.integer("a", maximum=5), "from 1 to 5, got 7"),
        ("a: .nan", lambda s: s.integer("a"), "expected a whole number, got nan"),
        ("a: .nan", lambda s: s.number("a"), "expected a number above 0 and at most 1, got nan"),
        ("a: 1.5", lambda s: s.number("a"), "expected a number above 0 and at most 1, got 1.5"),
        ("a: true", lambda s: s.number("a"), "expected a number, got True"),
        ("a: 1", lambda s: s.boolean("a"), "expected true or false, got 1"),
        ("a: 5", lambda s: s.text("a"), "expected a name, got 5"),
        ("a: ''", lambda s: s.text("a"), "expected a name, got ''"),
        ('a: "x\\ny"', lambda s: s.text("a"), r"printable characters, got 'x\ny'"),
        ('a: "\\e[31m"', lambda s: s.text("a"), r"printable characters, got '\x1b[31m'"),
        ("a: " + "x" * 1001, lambda s: s.text("a"), "at most 1000 printable characters"),
        ("a: ful", lambda s: s.choice("a", ("none", "full")), "unknown value 'ful'; did you mean 'full'?; allowed: none, full"),
        ("b: 1", lambda s: s.choice("a", ("none", "full")), "key 'a' is missing; expected one of none, full"),
        ("b: 1", lambda s: s.quantity("a", "time"), "key 'a' is missing; expected a quantity with a unit, for example 5 us"),
        ("a: -1 us", lambda s: s.quantity("a", "time"), "must be zero or more, got -1 us"),
        ("a: 0 us", lambda s: s.quantity("a", "time", positive=True), "must be more than zero, got 0 us"),
        ("a: 0.1 B/s", lambda s: s.quantity("a", "bandwidth", positive=True), "must be more than zero, got 0.1 B/s"),
    ],
)
def test_values_are_checked_where_they_are_read(text, call, words):
    assert words in complaint(call, loads(text, "f.yaml").section("", ("a", "b")))


def test_overrides():
    read = loads("a: {b: 1, c: 2}\nd: name\n", "f.yaml")
    changed = read.override(["a.b=3", "e.f.g=[1, 2]", "a.c=", "h=x=y"])
    assert changed.data == {"a": {"b": 3, "c": None}, "d": "name", "e": {"f": {"g": [1, 2]}}, "h": "x=y"}
    assert changed.place("a.b") == "--set a.b=3" and changed.place("e.f") == "--set e.f.g=[1, 2]"
    assert read.data == {"a": {"b": 1, "c": 2}, "d": "name"}
    assert read.override(["d.size=2"], {"d": "kind"}).data["d"] == {"kind": "name", "size": 2}


def test_places_of_what_an_override_replaced_are_its_own():
    read = loads("a:\n  b: 1\n", "f.yaml").override(["a={b: -1}"])
    assert read.place("a.b") == "--set a={b: -1}"


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("nodes", "expected path.to.key=value"),
        ("=3", "expected path.to.key=value"),
        ("a..b=3", "expected path.to.key=value"),
        ("a=[", "not valid YAML"),
        ("a=*x", "aliases"),
        ("a=!!int x", "tags"),
        ("a={b: 1, b: 2}", "a.b: the key is given twice"),
        ("a={1: 2}", "a key must be a name"),
        ("a=" + "[" * 5000, "deeper than 40"),
        ("a=\x1b[31m", r"'\x1b' is not allowed"),
        ("d.e=1", "d is 'name', not a mapping that can hold e"),
        ("l.0=1", "l is a list, not a mapping that can hold 0"),
        ("a" * 5000, "expected path.to.key=value"),
    ],
)
def test_overrides_that_are_wrong_name_the_option(assignment, words):
    message = complaint(loads("d: name\nl: [1]\n", "f.yaml").override, [assignment])
    assert message.startswith(f"--set {assignment[:40]}") and words in message
    assert len(message) < 300


@given(st.text())
@example("a: !<tag:yaml.org,2002:int> x")
@example("a: %")
def test_any_text_is_a_document_or_one_line(text):
    try:
        assert isinstance(loads(text, "f.yaml"), Document)
    except InputError as error:
        assert str(error).startswith("f.yaml")


def test_nearest_is_silent_when_nothing_is_near():
    assert nearest("zzz", ("alpha", "beta")) == "" and "'beta'" in nearest("bta", ("alpha", "beta"))
    assert nearest("x" * 10**6, ("alpha",)) == ""
