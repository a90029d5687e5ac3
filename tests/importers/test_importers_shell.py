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
        ("--num-\\\nlayers 2\\\n4 \\\n --x", [["--num-layers", "24", "--x"]]),
        ("a --x 1 # --y 2 'z\nb", [["a", "--x", "1"], ["b"]]),
        ("a &> log --x && b >& log 2>/dev/null --y", [["a", "--x"], ["b", "--y"]]),
        ("A=(b c)\nA+=d\nx $A ${A} \"${A[@]}\" ${A[1]}", [["x", "bd", "bd", "bd", "c", "${A[1]}"]]),
        (": ${X:=7} ${Y=8}\nx $X$Y", [[":", "7", "8"], ["x", "78"]]),
        ("X=\nx ${X-7} ${X:-a b} \"${X:-a b}\"", [["x", "a", "b", "a b"]]),
        ("declare -i N=4\nexport -x M=5\nx $N $M", [["x", "4", "5"]]),
        ("N=2\n((N *= 4))\n((M = N + 1)); let K=M*2\nx $N $M $K", [["let", "K=M*2"], ["x", "8", "9", "18"]]),
        ("N=2\n((N++))\nx $N", [["x", "$N"]]),
        ("N=2\n((N = N << 1))\nx $N", [["x", "$N"]]),
        ("N=2\nread N M < file\nx $N", [["read", "N", "M"], ["x", "$N"]]),
        ("N=2\neval \"N=4\"\nx $N", [["eval", "N=4"], ["x", "$N"]]),
        ("N=2\nunset N\nx ${N}", [["unset", "N"], ["x", "$N"]]),
        ("N=1\nfor N in 2 4; do x $N; done", [["for", "N", "in", "2", "4"], ["x", "$N"], ["done"]]),
        ("for N in 2; do x $N; done", [["for", "N", "in", "2"], ["x", "2"], ["done"]]),
        ("N=9; for ((N=0; N<4; N++)); do x $N; done", [["for"], ["x", "$N"], ["done"]]),
        ("A=2 B=3\nx $((A*(B+1))) $(( ${A} * ${C:-8} )) $(((1-8)/2)) $((010))", [["x", "8", "16", "-3", "$((010))"]]),
        ("x \"$(echo ')' \"b\")\" y", [["x", "$(echo ')' \"b\")", "y"]]),
        ("cat > f <<EOF | y\n--a 'b\nEOF\nx <<'E O'\n$(\nE O\nz <<-E\n\tb\n\tE\nw <<< \"c\" v", [["cat"], ["y"], ["x"], ["z"], ["w", "v"]]),
        ("N=2\nif ((N << 1)); then x $N; fi", [["if"], ["x", "2"], ["fi"]]),
        ("[ -z $X ] && { N=1; }\nx $N", [["[", "-z", "$X", "]"], ["x", "1"]]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_given_variables_stay():
    assert words("X=1\nx $X", X="5") == [["x", "5"]]


def test_what_runs_perhaps_is_told():
    script = read_script("A=1\nif x; then\n B=2\nfi\nC=3\n[ y ] && D=4\nE=5\nz || {\n F=6\n}\nG=7\nfor H in 1 2; do I=9; done", "t")
    assert (script.branches, script.branched) == ((2, 6, 12), ("B", "D", "F", "H", "I"))


def test_defaults_hold_until_they_are_assigned():
    def value(text):
        return read_script(text, "t", defaults={"X": "5"}).commands[0][1].text

    assert value("x $X") == "5" and value("X=1\nx $X") == "1"


def test_a_word_keeps_the_line_it_was_written_on():
    script = read_script("A=(\n a\n b\n)\nx c \\\n  \"${A[@]}\"\n", "t")
    assert [(word.text, word.line) for word in script.commands[0]] == [("x", 5), ("c", 5), ("a", 2), ("b", 3)]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\nb 'c", "t:2: the ' that begins here is never closed"),
        ('a\n"c', 't:2: the " that begins here is never closed'),
        ("A=(b\nc", "t:1: the array that begins here has no closing"),
        ("a\nb \\  \n c", "t:2: the backslash at the end of the line is followed by a blank"),
        ("a \\\t\nb", "t:1: the backslash at the end of the line is followed by a blank"),
        ("a\ncat <<EOF\nb\n EOF", "t:2: the here-document that begins here has no line 'EOF' that ends it"),
        ("a ${b", "t:1: the ${ that begins here is never closed"),
        ("A=aaaaaaaaaaaaaaaaaaaa\n" + "A=$A$A\n" * 30, "expands to too much"),
        ("A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 30, "expands to too much"),
    ],
)
def test_what_does_not_end_is_refused(text, message):
    with pytest.raises(InputError) as error:
        read_script(text, "t")
    assert message in str(error.value)
