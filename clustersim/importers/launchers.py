"""How many GPUs a launch has: the options of srun, torchrun, mpirun, deepspeed and accelerate, and Slurm's directives.

>>> from clustersim.importers.shell import read_script
>>> words = read_script("srun -N 4 --ntasks-per-node 8 python -u", "run.sh").commands[0]
>>> launch = Launch(find_launchers(words, "run.sh"))
>>> launch.world_size([])
(32, '-N x --ntasks-per-node')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clustersim.importers.arguments import Arguments, Option
from clustersim.importers.shell import UNKNOWN, Word, read_script, shown_unknown

_MAX_COUNT = 10**6
NODES, PER_NODE, TASKS, GPUS_PER_NODE, GPUS, HOSTS = "nodes", "per node", "tasks", "GPUs per node", "GPUs", "hosts"
# What an option counts, by its spelling; only Slurm and MPI tell - from _.
_MEANINGS = {
    "slurm": {
        "-N": NODES, "--nodes": NODES, "-n": TASKS, "--ntasks": TASKS, "--ntasks-per-node": PER_NODE, "--tasks-per-node": PER_NODE,
        "--gpus-per-node": GPUS_PER_NODE, "--gres": GPUS_PER_NODE, "-G": GPUS, "--gpus": GPUS,
    },
    "torch": {"--nnodes": NODES, "-nnodes": NODES, "--nproc-per-node": PER_NODE, "-nproc-per-node": PER_NODE},
    "mpi": {"-np": TASKS, "--np": TASKS, "-n": TASKS, "--n": TASKS, "-c": TASKS},
    "deepspeed": {
        "--num-nodes": NODES, "--num-gpus": PER_NODE, "--hostfile": HOSTS, "-H": HOSTS, "--include": HOSTS, "-i": HOSTS,
        "--exclude": HOSTS, "-e": HOSTS,
    },
    "accelerate": {"--num-processes": TASKS, "--num-machines": NODES},
}  # fmt: skip
_KINDS = {
    "srun": "slurm", "salloc": "slurm", "sbatch": "slurm", "torchrun": "torch", "mpirun": "mpi", "mpiexec": "mpi", "orterun": "mpi",
    "mpiexec.hydra": "mpi", "horovodrun": "mpi", "deepspeed": "deepspeed", "accelerate": "accelerate",
}  # fmt: skip
MODULES = {
    "torch.distributed.run": "torch", "torch.distributed.launch": "torch", "accelerate.commands.launch": "accelerate",
}  # fmt: skip
_PROGRAM = re.compile(
    r"(.*/)?(python[0-9.]*|bash|sh|zsh|env|numactl|taskset|nsys|ncu|singularity|apptainer|docker|podman|shifter|nohup|timeout|ssh|\S+\.sh)"
)
_ATTACHED = re.compile(r"(-[NnG])([0-9].*)", re.DOTALL)
_DIRECTIVE = re.compile(r"#(SBATCH|PBS|BSUB|FLUX|COBALT)\b(.*)")
DIRECTIVES = "#SBATCH"
# A job may be called like a program.
_NAMING = frozenset(("-J", "--job-name"))


@dataclass(frozen=True)
class Launcher:
    """One program of a launch, by ``name``, and its options as they are written."""

    name: str
    kind: str
    arguments: Arguments

    def find(self, meaning: str) -> str | None:
        """The option with this meaning that was given last."""
        meanings = _MEANINGS[self.kind]
        named = [name for name in self.arguments.options if meanings.get(_spelling(name, self.kind)) == meaning]
        return named[-1] if named else None

    def counts(self, name: str) -> bool:
        return _spelling(name, self.kind) in _MEANINGS[self.kind]

    def count(self, meaning: str) -> int | None:
        name = self.find(meaning)
        return None if name is None else self.arguments.whole(name, maximum=_MAX_COUNT)

    def seen(self, meaning: str) -> int | None:
        """Like :meth:`count`, but None where the value is no number, and the option does not count as used."""
        name = self.find(meaning)
        values = self.arguments.options[name].values if name else ()
        return int(values[0]) if values and re.fullmatch("[1-9][0-9]{0,5}", values[0], re.ASCII) else None

    def known(self, meaning: str) -> int | None:
        """Like :meth:`count`, but None where the value is no number, for what only checks."""
        return None if self.seen(meaning) is None else self.count(meaning)


@dataclass(frozen=True)
class Launch:
    """The launchers of one command, outermost first; the first may be Slurm's directives."""

    launchers: tuple[Launcher, ...]

    def world_size(self, notes: list[str]) -> tuple[int, str] | None:
        """Processes, one a GPU, and the options that say so; None where they do not. What is assumed goes to ``notes``."""
        started = [launcher for launcher in self.launchers if launcher.name != DIRECTIVES]
        inner = next((launcher for launcher in reversed(started) if launcher.kind not in ("slurm", "mpi")), None)
        if inner is not None:
            return self._by_nodes(inner, notes) if inner.kind != "accelerate" else _total(inner)
        if started and started[-1].kind == "mpi":
            return _total(started[-1])
        return self._by_slurm(notes) if started else None

    def per_node(self) -> int | None:
        """GPUs of one node, as far as that is known."""
        inner = [one.seen(PER_NODE) for one in self.launchers if one.kind in ("torch", "deepspeed")]
        slurm = self._last(PER_NODE) or self._last(GPUS_PER_NODE)
        if inner:
            return inner[-1]
        return (slurm.seen(PER_NODE) or slurm.seen(GPUS_PER_NODE)) if slurm else None

    def _last(self, meaning: str) -> Launcher | None:
        """srun inherits from the directives what it does not say itself."""
        slurm = [launcher for launcher in self.launchers if launcher.kind == "slurm" and launcher.find(meaning)]
        return slurm[-1] if slurm else None

    def _slurm_count(self, meaning: str) -> tuple[int | None, str]:
        launcher = self._last(meaning)
        return (launcher.count(meaning), launcher.find(meaning) or "") if launcher else (None, "")

    def _outer_nodes(self) -> int | None:
        """How often an inner launcher is started, as far as that is known."""
        slurm = self._last(NODES)
        mpi = next((launcher.known(TASKS) for launcher in self.launchers if launcher.kind == "mpi"), None)
        return mpi or (slurm.known(NODES) if slurm else None)

    def _by_nodes(self, inner: Launcher, notes: list[str]) -> tuple[int, str] | None:
        per_node, nodes = inner.count(PER_NODE), inner.count(NODES)
        outer = self._outer_nodes()
        if per_node is None:
            return None
        option = "--nnodes" if inner.kind == "torch" else "--num_nodes"
        where = f"{inner.name} has no {option}"
        if nodes is not None:
            if outer not in (None, nodes):
                notes.append(f"{inner.name} has {nodes} nodes, the job around it {outer}; {nodes} are taken")
            return nodes * per_node, f"{inner.find(NODES)} x {inner.find(PER_NODE)}"
        hosts = inner.find(HOSTS)
        if hosts:
            inner.arguments.fail(hosts, f"the machines are not in this file; give {option}, or --gpus")
        if outer not in (None, 1):
            inner.arguments.fail(str(inner.find(PER_NODE)), f"{where}, but the job around it has {outer} nodes; give {option}, or --gpus")
        notes.append(f"{where}: 1 node assumed; --gpus gives another number of GPUs")
        return per_node, str(inner.find(PER_NODE))

    def _by_slurm(self, notes: list[str]) -> tuple[int, str] | None:
        """The tasks, or where none are given the GPUs."""
        nodes, nodes_name = self._slurm_count(NODES)
        tasks = self._slurm_tasks(nodes, nodes_name)
        gpus, gpus_name = self._slurm_count(GPUS)
        each, each_name = self._slurm_count(GPUS_PER_NODE)
        if gpus is None and each is not None:
            gpus, gpus_name = each * (nodes or 1), f"{nodes_name} x {each_name}" if nodes else each_name
        found = tasks if tasks is not None or gpus is None else (gpus, gpus_name)
        if found is None:
            return None
        if nodes is None and self._last(TASKS) is None and self._last(GPUS) is None:
            notes.append("Slurm has no --nodes: 1 node assumed; --gpus gives another number of GPUs")
        if tasks is None:
            notes.append(f"no number of tasks is given: one for each of {gpus} GPUs assumed ({gpus_name})")
        elif gpus not in (None, tasks[0]) and (nodes is not None or self._last(TASKS) is None):
            notes.append(f"{tasks[0]} tasks ({tasks[1]}), but {gpus} GPUs ({gpus_name}): one GPU a task assumed, {tasks[0]}")
        return found

    def _slurm_tasks(self, nodes: int | None, nodes_name: str) -> tuple[int, str] | None:
        (tasks, name), (per_node, per_name) = self._slurm_count(TASKS), self._slurm_count(PER_NODE)
        last = self._last(TASKS)
        if tasks is None:
            if per_node is None:
                return None
            return (nodes * per_node, f"{nodes_name} x {per_name}") if nodes else (per_node, per_name)
        if last and nodes and per_node and nodes * per_node != tasks:
            product = f"{nodes_name} {nodes} x {per_name} {per_node} = {nodes * per_node}"
            last.arguments.fail(name, f"{tasks} contradicts {product}; --gpus must say the number of GPUs")
        return tasks, name


def _total(launcher: Launcher) -> tuple[int, str] | None:
    """Launchers that count the processes of all nodes."""
    launcher.known(NODES)
    total = launcher.count(TASKS)
    return None if total is None else (total, str(launcher.find(TASKS)))


def find_launchers(words: Sequence[Word], source: str) -> tuple[Launcher, ...]:
    """The launchers in the words before a training script."""
    found: list[Launcher] = []
    position = 0
    while position < len(words):
        name, kind, length = _launcher_at(words, position)
        position += length
        if kind:
            arguments, position = _options(words, position, kind, source)
            found.append(Launcher(name, kind, arguments))
    return tuple(found)


def _launcher_at(words: Sequence[Word], position: int) -> tuple[str, str, int]:
    """Name and kind of the launcher that begins here (``""``: none), and how many words that takes."""
    text = words[position].text
    base = text.rpartition("/")[2]
    following = words[position + 1].text if position + 1 < len(words) else ""
    if base == "accelerate":
        return (base, _KINDS[base], 2) if following == "launch" else ("", "", 1)
    if base in _KINDS:
        return base, _KINDS[base], 1
    if text == "-m" and following in MODULES:
        return following, MODULES[following], 2
    if text.endswith(("torch/distributed/launch.py", "torch/distributed/run.py")):
        return base, "torch", 1
    return "", "", 1


def _options(words: Sequence[Word], position: int, kind: str, source: str, launches: bool = True) -> tuple[Arguments, int]:
    """The options from here to the program that is launched, if one is, and where that begins."""

    def ends(at: int) -> bool:
        return launches and _is_program(words, at)

    def follows(name: str, at: int) -> bool:
        """Whether the word there is the option's value."""
        return at < len(words) and not words[at].text.startswith("-") and (name in _NAMING or not ends(at))

    options: dict[str, Option] = {}
    stray: list[str] = []
    while position < len(words) and not ends(position):
        word = words[position]
        position += 1
        if not word.text.startswith("-"):
            stray += [shown_unknown(word.text)] if UNKNOWN in word.text else []
            continue
        name, equals, value = word.text.partition("=")
        attached = _ATTACHED.fullmatch(word.text) if kind == "slurm" else None
        if attached:
            name, value = attached.groups()
        elif not equals and follows(name, position):
            value, equals = words[position].text, "="
            position += 1
        if name == "--gres" and not any(item.startswith("gpu") for item in value.split(",")):
            name = "--gres (no gpu)"
        options.pop(name, None)  # the last counts, and stands last
        given = (_count_text(name, value, kind),) if equals or attached else ()
        options[name] = Option(given, word.line)
    return Arguments(source, options, tuple(stray), strict=False), position


def _is_program(words: Sequence[Word], position: int) -> bool:
    text = words[position].text
    return bool(_PROGRAM.fullmatch(text)) or bool(_launcher_at(words, position)[1])


def _spelling(name: str, kind: str) -> str:
    return name if kind in ("slurm", "mpi") else name.replace("_", "-")


def _count_text(name: str, value: str, kind: str) -> str:
    """Slurm names the type of a GPU before their number.

    >>> [_count_text(*given, "slurm") for given in (("--gres", "nvme:1,gpu:a100:8"), ("--gres", "gpu"), ("--gpus", "h100:4"))]
    ['8', '1', '4']
    """
    if kind != "slurm" or _MEANINGS[kind].get(name) not in (GPUS_PER_NODE, GPUS):
        return value
    item = next((item for item in value.split(",") if item.startswith("gpu")), value) if name == "--gres" else value
    return "1" if item == "gpu" else item.rpartition(":")[2]


def read_directives(text: str, source: str) -> tuple[Launcher | None, list[str]]:
    """Slurm's ``#SBATCH`` lines, which stand before the first command; and what of such lines is not read.

    >>> slurm, ignored = read_directives("#!/bin/bash\\n#SBATCH --nodes=4 -p gpu # four\\nX=1\\n#SBATCH --nodes=8", "run.sh")
    >>> slurm.count(NODES), ignored
    (4, ['#SBATCH on line 4: it stands after the first command, where Slurm does not read it'])
    """
    words: list[Word] = []
    ignored: list[str] = []
    begun = False
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.match(line)
        begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        if match and match[1] != "SBATCH":
            ignored.append(f"#{match[1]} on line {number}: only Slurm's directives are read")
        elif match and begun:
            ignored.append(f"#SBATCH on line {number}: it stands after the first command, where Slurm does not read it")
        elif match:
            # Slurm expands no variables.
            commands = read_script(match[2].replace("$", "\\$"), source, first_line=number).commands
            words += [word for command in commands for word in command]
    if not words:
        return None, ignored
    return Launcher(DIRECTIVES, "slurm", _options(words, 0, "slurm", source, launches=False)[0]), ignored


def slurm_variables(directives: Launcher | None) -> Mapping[str, str]:
    """What Slurm sets for the script by its directives, as far as they are clear."""
    if directives is None:
        return {}
    nodes, tasks, per_node = (directives.seen(meaning) for meaning in (NODES, TASKS, PER_NODE))
    gpus = directives.seen(GPUS_PER_NODE)
    all_tasks = tasks or (nodes * per_node if nodes and per_node else None)
    values = {
        "SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": all_tasks, "SLURM_NPROCS": all_tasks,
        "SLURM_NTASKS_PER_NODE": per_node, "SLURM_GPUS_PER_NODE": gpus, "SLURM_GPUS_ON_NODE": gpus,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items() if value}

