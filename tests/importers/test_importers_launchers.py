"""How many GPUs a launch has; the numbers are worked out by hand."""

import pytest

from clustersim import experiment
from clustersim.errors import InputError
from clustersim.importers.megatron import import_megatron

# One replica takes 4 GPUs.
TRAIN = (
    "pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --micro-batch-size 1"
    " --global-batch-size 1024 --tensor-model-parallel-size 4"
)


def gpus(text, **options):
    """The number of GPUs, and what is said about it."""
    imported = import_megatron(text, "t", **options)
    (data,) = (line for line in imported.text.splitlines() if line.startswith("  data:"))
    notes = [note for note in imported.notes if "name no machine" not in note and "vocabulary" not in note]
    return 4 * int(data.split()[1]), notes, list(imported.unused)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("srun -N 4 --ntasks-per-node 8 python", 32),
        ("srun -N4 --ntasks-per-node=8 python -u", 32),
        ("srun --nodes=4 --tasks-per-node=8 -l --mpi=pmix python", 32),
        ("#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --time=1:00\nsrun --ntasks-per-node=8 python", 32),
        ("#SBATCH -N 4 --ntasks-per-node=8  # all of them\nsrun --label python", 32),
        ("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nsrun -N 2 python", 16),
        ("#SBATCH --ntasks=32\nsrun python", 32),
        ("#SBATCH -J deepspeed\n#SBATCH --nodes=4\nsrun -J torchrun --ntasks-per-node 8 python", 32),
        ("#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks-per-node=8\nsrun python", 32),
        ("srun -n 32 --ntasks-per-node 8 python", 32),
        ("srun -n 32 python", 32),
        ("srun -n32 -p gpu numactl -N 0 python", 32),
        ("srun -N 4 --ntasks-per-node 8 ./wrap.sh -N 9 -n 7", 32),
        ("srun -N 4 -n 32 --ntasks-per-node 8 bash -c 'cd x && python", 32),
        ("torchrun --nnodes 2 --nproc_per_node 8", 16),
        ("torchrun -nnodes 2 --nproc_per_node 8", 16),
        ("torchrun --nnodes=2 --nproc-per-node=8 --rdzv_backend c10d", 16),
        ("torchrun --nnodes 1 --nnodes 2 --nproc_per_node 8", 16),
        ("python -m torch.distributed.launch --nnodes 2 --nproc_per_node 8", 16),
        ("python3.11 -m torch.distributed.run --nnodes=2 --nproc-per-node=8 --master-port 1", 16),
        ("srun -N 2 --ntasks-per-node=1 torchrun --nnodes 2 --nproc_per_node 8", 16),
        ("#SBATCH --nodes=2\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8", 16),
        ("#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:8\nsrun torchrun --nnodes ${SLURM_JOB_NUM_NODES} --nproc_per_node $SLURM_GPUS_ON_NODE",
         16),
        ("#SBATCH --nodes=2 --ntasks-per-node=8\nexport WORLD_SIZE=$SLURM_NTASKS\npython", 16),
        ("mpirun -np 32 -x PATH -mca btl ^openib --hostfile hosts python", 32),
        ("mpirun -mca btl ^openib -np 32 python", 32),
        ("mpiexec -n 16 python", 16),
        ("mpirun --np=16 ./wrap.sh python", 16),
        ("deepspeed --num_nodes 2 --num_gpus 8 --hostfile hosts", 16),
        ("deepspeed --num_nodes=2 --num_gpus=8", 16),
        ("accelerate launch --num_processes 16 --num_machines 2 --multi_gpu", 16),
        ("accelerate launch --num-processes=16 --config_file x.yaml", 16),
    ],
)
def test_clear_launches(text, expected):
    quote = "'" if text.count("'") % 2 else ""
    assert gpus(f"{text} {TRAIN}{quote}")[:2] == (expected, [])


@pytest.mark.parametrize(
    "text, expected, words",
    [
        ("torchrun --nproc_per_node 8", 8, "torchrun has no --nnodes: 1 node assumed"),
        ("srun --ntasks-per-node 8 python", 8, "Slurm has no --nodes: 1 node assumed"),
        ("deepspeed --num_gpus 8", 8, "deepspeed has no --num_nodes: 1 node assumed"),
        ("#SBATCH --nodes=4 --gpus-per-node=8\nsrun python", 32, "one for each of 32 GPUs assumed (--nodes x --gpus-per-node)"),
        ("#SBATCH --nodes=4 --gres=gpu:8\nsrun python", 32, "one for each of 32 GPUs assumed (--nodes x --gres)"),
        ("srun -G 32 python", 32, "one for each of 32 GPUs assumed (-G)"),
        ("srun -N 4 --ntasks-per-node 8 --gpus-per-node=4 python", 32,
         "32 tasks (-N x --ntasks-per-node), but 16 GPUs (-N x --gpus-per-node)"),
        ("#SBATCH --nodes=4 --ntasks=4 --gpus-per-node=8\nsrun python", 4, "4 tasks (--ntasks), but 32 GPUs (--nodes x --gpus-per-node)"),
        ("srun -N 4 torchrun --nnodes 2 --nproc_per_node 8", 16, "torchrun has 2 nodes, the job around it 4"),
        ("WORLD_SIZE=64\ntorchrun --nnodes 2 --nproc_per_node 8", 16, "WORLD_SIZE is 64, but the launcher starts 16 processes"),
    ],
)
def test_what_is_assumed_is_said(text, expected, words):
    count, notes, _ = gpus(f"{text} {TRAIN}")
    assert count == expected and len(notes) == 1 and words in notes[0]


@pytest.mark.parametrize(
    "text, message",
    [
        ("srun -N 4 python", "^t: the number of GPUs is not given; expected .* or --gpus$"),
        ("mpirun --hostfile hosts python", "^t: the number of GPUs is not given"),
        ("mpirun -npernode 8 --hostfile hosts python", "^t: the number of GPUs is not given"),
        ("accelerate launch --num_machines 2", "^t: the number of GPUs is not given"),
        ("deepspeed", "^t: the number of GPUs is not given"),
        ("jsrun -n 24 -g 1 python", "^t: the number of GPUs is not given"),
        ("deepspeed --hostfile hosts --num_gpus 8", "^t:1: --hostfile: the machines are not in this file; give --num_nodes, or --gpus"),
        ("srun -N 4 torchrun --nproc_per_node 8", "^t:1: --nproc_per_node: torchrun has no --nnodes, but the job around it has 4 nodes"),
        ("#SBATCH --nodes=4\ntorchrun --nproc_per_node 8", "^t:2: --nproc_per_node: torchrun has no --nnodes, but the job around it has 4"),
        ("srun -N 2 -n 8 --ntasks-per-node 8 python", "^t:1: -n: 8 contradicts -N 2 x --ntasks-per-node 8 = 16"),
        ("#\n#SBATCH --nodes=2-4\nsrun --ntasks-per-node 8 python", "^t:2: --nodes: expected a whole number .* got '2-4'"),
        ("srun -N 2-4 --ntasks-per-node 8 python", "^t:1: -N: expected a whole number .* got '2-4'"),
        ("srun -N $N --ntasks-per-node 8 python", r"^t:1: -N: \$N is known only when the script runs"),
    ],
)
def test_what_is_not_clear_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        import_megatron(f"{text} {TRAIN}", "t")
    assert gpus(f"{text} {TRAIN}", gpus=32)[0] == 32, "--gpus says it"


def test_options_of_launchers_that_are_not_used_are_listed():
    text = (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=2:00:00\n#PBS -q work\nX=1\n#SBATCH --nodes=9\n"
        f"srun -l --mpi pmix torchrun $MORE --nnodes 2 --nproc_per_node 8 --master_addr a {TRAIN} --lr 1"
    )
    assert gpus(text)[2] == [
        "#SBATCH --time",
        "srun -l",
        "srun --mpi",
        "torchrun --master_addr",
        "--lr",
        "torchrun $MORE: known only when the script runs",
        "#PBS on line 4: only Slurm's directives are read",
        "#SBATCH on line 6: it stands after the first command, where Slurm does not read it",
    ]
    assert gpus(f"torchrun --nnodes 2 --nproc_per_node 8 {TRAIN}", gpus=32)[2] == [
        "torchrun --nnodes: --gpus is given", "torchrun --nproc_per_node: --gpus is given"
    ]  # fmt: skip


def test_the_training_script_is_told_from_other_python_files():
    line = f"torchrun --nnodes 1 --nproc_per_node 8 {TRAIN}".replace("pretrain_gpt.py", "pretrain_gpt.py --bf16 --spec-file /x/spec.py")
    assert "precision: bf16" in import_megatron(line, "t").text
    line = f"python /x/torch/distributed/launch.py --nnodes 1 --nproc_per_node 8 {TRAIN}"
    assert gpus(line)[0] == 8
    line = f"torchrun --nnodes 1 --nproc_per_node 8 -m pretrain --bf16 {TRAIN}".replace("pretrain_gpt.py", "")
    assert "precision: bf16" in import_megatron(line, "t").text and gpus(line)[2] == []
    line = f"torchrun --nnodes 1 --nproc_per_node 8 $SCRIPT --bf16 --lr 1 {TRAIN} --save x".replace("pretrain_gpt.py", "")
    count, _, unused = gpus(line)
    assert count == 8 and {"torchrun --lr", "--save"} == {word for word in unused if "$" not in word}


def test_the_imported_experiment_has_those_gpus(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(import_megatron(f"srun -N 4 --ntasks-per-node 8 python {TRAIN}", "t").text)
    grid = experiment.load(path).grid
    assert (grid.data, grid.tensor, grid.ranks) == (8, 4, 32)
