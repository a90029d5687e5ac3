import pytest

from clustersim.errors import InputError
from clustersim.importers.shell import read_script, shown_unknown


def words(text, **variables):
    return [[shown_unknown(word.text) for word in command] for command in read_script(text, "t", variables).commands]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a \\\n b", [["a", "b"]]),
        ("a; b && c | d & e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a 'b c' \"d e\"'f'", [["a", "b c", "d ef"]]),
        ("a # b\nc#d", [["a"], ["c#d"]]),
        ("a > out.txt 2>&1 b", [["a", "b"]]),
        ("X=1\na $X ${X} \"$X\" '$X' \\$X", [["a", "1", "1", "1", "$X", "$X"]]),
        ("X='1 2'\na $X \"$X\"", [["a", "1", "2", "1 2"]]),
        ("X=1 Y=$X\na $Y", [["a", "1"]]),
        ("export X=1\nlocal Y=2\na $X$Y", [["a", "12"]]),
        ("A=(b 'c d' # e\n f)\nx ${A[@]} \"${A[@]}\" \"${A[*]}\"", [["x", "b", "c", "d", "f", "b", "c d", "f", "b c d f"]]),
        ("A=(b)\nA+=(c)\nx \"${A[@]}\"", [["x", "b", "c"]]),
        ("A=()\nx \"${A[@]}\" y", [["x", "y"]]),
        ("S='a b'\nS+=' c'\nx $S", [["x", "a", "b", "c"]]),
        ("x ${U:-7} ${U-'a'} ${U}", [["x", "7", "a", "$U"]]),
        ("X=\nx ${X:-7}", [["x", "7"]]),
        ("a=6\nx $((a*7)) $(( $a / 4 )) $((a % 4 - 1)) $((b + 1)) $((2 ** 99))", [["x", "42", "1", "1", "$((b + 1))", "$((2 ** 99))"]]),
        ("x $(date) `date` $1", [["x", "$(date)", "`date`", "$1"]]),
        ("if [ 1 ]; then X=2; fi\nx $X", [["if", "[", "1", "]"], ["fi"], ["x", "2"]]),
        ('X="a\\\n  b \\"c\\""\nx $X', [["x", "a", "b", '"c"']]),
        ("x ${U:-${V:-${W:-3}}}", [["x", "3"]]),
        ("\n\n", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_given_variables_stay():
    assert words("X=1\nx $X", X="5") == [["x", "5"]]


def test_a_word_keeps_the_line_it_was_written_on():
    script = read_script("A=(\n a\n b\n)\nx c \\\n  \"${A[@]}\"\n", "t")
    assert [(word.text, word.line) for word in script.commands[0]] == [("x", 5), ("c", 5), ("a", 2), ("b", 3)]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\nb 'c", "t:2: the ' that begins here is never closed"),
        ('a\n"c', 't:2: the " that begins here is never closed'),
        ("A=(b\nc", "t:1: the array that begins here has no closing"),
        ("a ${b", "t:1: the ${ that begins here is never closed"),
        ("A=aaaaaaaaaaaaaaaaaaaa\n" + "A=$A$A\n" * 30, "expands to too much"),
        ("A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 30, "expands to too much"),
    ],
)
def test_what_does_not_end_is_refused(text, message):
    with pytest.raises(InputError) as error:
        read_script(text, "t")
    assert message in str(error.value)
