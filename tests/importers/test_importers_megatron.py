import re
from pathlib import Path

import pytest

from clustersim import experiment
from clustersim.errors import InputError
from clustersim.importers.megatron import import_megatron
from clustersim.importers.nvidia_smi import import_nvidia_smi
from tests.importers import samples

LINE = (
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --micro-batch-size 2 --global-batch-size 64"
    " --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --bf16 "
)
# formats.md, section 4: the options of Megatron-LM, with a value that the option can have.
OPTIONS = {
    "--tensor-model-parallel-size": "4", "--pipeline-model-parallel-size": "2", "--context-parallel-size": "1",
    "--expert-model-parallel-size": "1", "--expert-tensor-parallel-size": "1", "--sequence-parallel": "",
    "--num-layers-per-virtual-pipeline-stage": "3", "--num-virtual-stages-per-pipeline-rank": "4",
    "--microbatch-group-size-per-virtual-pipeline-stage": "2", "--use-tp-pp-dp-mapping": "", "--micro-batch-size": "2",
    "--global-batch-size": "64", "--seq-length": "1024", "--num-layers": "48", "--hidden-size": "4096", "--ffn-hidden-size": "9000",
    "--num-attention-heads": "32", "--group-query-attention": "", "--num-query-groups": "8", "--kv-channels": "64", "--swiglu": "",
    "--untie-embeddings-and-output-weights": "", "--make-vocab-size-divisible-by": "64", "--num-experts": "1", "--moe-router-topk": "2",
    "--moe-ffn-hidden-size": "512", "--moe-shared-expert-intermediate-size": "512", "--moe-layer-freq": "1",
    "--moe-token-dispatcher-type": "alltoall", "--use-distributed-optimizer": "", "--overlap-grad-reduce": "", "--overlap-param-gather": "",
    "--no-overlap-p2p-communication": "", "--delay-wgrad-compute": "", "--overlap-moe-expert-parallel-comm": "",
    "--recompute-granularity": "full", "--recompute-method": "uniform", "--recompute-num-layers": "1", "--recompute-modules": "core_attn",
    "--decoder-first-pipeline-num-layers": "11", "--decoder-last-pipeline-num-layers": "11",
    "--account-for-embedding-in-pipeline-split": "--account-for-loss-in-pipeline-split",
    "--account-for-loss-in-pipeline-split": "--account-for-embedding-in-pipeline-split",
    "--pipeline-model-parallel-layout": "'Et*12|t*12L'",
}  # fmt: skip


def loaded(imported, tmp_path):
    path = tmp_path / "imported.yaml"
    path.write_text(imported.text)
    return experiment.load(path)


def test_the_175b_script(tmp_path):
    imported = import_megatron(samples.SCRIPT_175B, "train.sh")
    job = loaded(imported, tmp_path)
    grid, model = job.grid, job.model
    assert (grid.data, grid.pipeline, grid.tensor) == (16, 8, 8)
    assert (model.layers, model.hidden, model.heads, model.vocab) == (96, 12288, 96, 51200)
    assert (job.global_batch, job.micro_batch, job.sequence) == (1536, 1, 2048)
    assert (job.precision, job.recompute) == ("bf16", "full")
    assert (job.strategy.name, job.strategy.partition, job.strategy.overlap) == ("standard", "optimizer", True)
    assert any("dgx-a100 is assumed" in note for note in imported.notes)
    names = [unused.split(":")[0] for unused in imported.unused]
    assert {"--lr", "--train-iters", "--data-path", "--rampup-batch-size", "--save"} <= {*names}
    assert not {"--num-layers", "--bf16", "--nnodes"} & {*names}


def test_a_llama_script_with_quoted_arguments(tmp_path):
    imported = import_megatron(samples.SCRIPT_LLAMA, "train.sh", cluster="dgx-h100")
    job = loaded(imported, tmp_path)
    model = job.model
    assert (model.kv_heads, model.ffn, model.gated, model.tied) == (8, 14336, True, False)
    assert model.vocab == 128512, "128001 padded to a multiple of 128 x 4"
    assert (job.grid.tensor, job.grid.pipeline, job.grid.data) == (4, 2, 4)
    assert (job.precision, job.recompute, job.strategy.overlap) == ("fp16", "selective", True)
    assert not any("kin" in note for note in imported.notes)
    assert job.sequence_parallel
    line = samples.SCRIPT_LLAMA[: samples.SCRIPT_LLAMA.index("if [")].count("\n") + 1
    assert any(f"branches or loops (lines {line})" in note for note in imported.notes)
    assert "$@: known only when the script runs" in imported.unused


def test_every_value_names_its_option():
    for line in import_megatron(samples.SCRIPT_175B, "t").text.splitlines()[1:]:
        assert line.endswith(":") or " # " in line, line


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_mapped_or_listed_as_unused(option):
    plain = import_megatron(LINE, "t", gpus=16)
    changed = import_megatron(f"{LINE} {option} {OPTIONS[option]}", "t", gpus=16)
    listed = any(unused.split(":")[0] == option for unused in changed.unused)
    repeats = option in LINE or option in ("--context-parallel-size", "--expert-model-parallel-size", "--expert-tensor-parallel-size",
                                           "--num-experts")
    assert listed or repeats or (changed.text, changed.notes) != (plain.text, plain.notes)


@pytest.mark.parametrize(
    "added, expected",
    [
        ("", {"overlap": False, "partition": "none"}),
        ("--overlap-grad-reduce", {"overlap": True}),
        ("--use-distributed-optimizer", {"partition": "optimizer"}),
        ("--use-torch-fsdp2", {"partition": "parameters"}),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", {"partition": "gradients"}),
    ],
)
def test_strategy(added, expected, tmp_path):
    strategy = loaded(import_megatron(LINE + added, "t", gpus=16), tmp_path).strategy
    assert {key: getattr(strategy, key) for key in expected} == expected


def test_other_mappings(tmp_path):
    def job(added, gpus=16):
        return loaded(import_megatron(LINE + added, "t", gpus=gpus), tmp_path)

    order = job("--use-tp-pp-dp-mapping").grid.order
    assert [name for name in order if name in ("tensor", "pipeline", "data")] == ["tensor", "pipeline", "data"]
    assert job("--kv-channels 64").model.head_size == 64
    assert job("--group-query-attention").model.kv_heads == 1
    assert job("--num-query-groups 4").model.kv_heads == 16, "no grouped attention without the flag"
    assert job("--swiglu").model.ffn == 5440
    assert job("--vocab-size 32000 --make-vocab-size-divisible-by 1").model.vocab == 32000
    assert job("--padded-vocab-size 60000 --vocab-size 5").model.vocab == 60000
    assert job("--recompute-granularity selective").recompute == "selective"
    assert job("--num-layers=48").model.layers == 48
    assert job("", gpus=32).grid.data == 4


def test_defaults_of_megatron(tmp_path):
    text = LINE.replace("--bf16", "").replace("--global-batch-size 64", "")
    imported = import_megatron(text, "t", gpus=16)
    job = loaded(imported, tmp_path)
    assert job.precision == "fp32" and job.global_batch == 4 and any("--global-batch-size is not given" in note for note in imported.notes)


def test_a_foreign_tokenizer_leaves_the_vocabulary_open():
    imported = import_megatron(LINE + "--tokenizer-type Llama2Tokenizer", "t", gpus=8)
    assert "vocab" not in imported.text and any("Llama2Tokenizer" in note for note in imported.notes)


@pytest.mark.parametrize(
    "launcher, gpus",
    [
        ("torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py ", 16),
        ("torchrun --nproc-per-node=8 pretrain_gpt.py ", 8),
        ("srun --nodes 4 --ntasks-per-node 8 python -u pretrain_gpt.py ", 32),
        ("deepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt.py ", 8),
        ("WORLD_SIZE=32\npython pretrain_gpt.py ", 32),
        ("N=2; G=8\nexport WORLD_SIZE=$((N*$G))\npython pretrain_gpt.py ", 16),
    ],
)
def test_world_size(launcher, gpus, tmp_path):
    job = loaded(import_megatron(launcher + LINE, "t"), tmp_path)
    assert job.grid.data * 8 == gpus


def test_the_environment_comes_before_the_script():
    text = "TP=${TP:-8}\nNNODES=1\ntorchrun --nnodes $NNODES --nproc_per_node 8 p.py " + LINE.replace("size 4", "size $TP")
    assert "tensor: 2 " in import_megatron(text, "t", variables={"TP": "2"}).text
    assert "data: 4 " in import_megatron(text, "t", variables={"TP": "1", "NNODES": "1"}).text


@pytest.mark.parametrize(
    "text, message",
    [
        ("echo hello", "^t: no command with --num-layers"),
        ("", "^t: the file is empty"),
        ("\x00\x7fELF", "is not text"),
        (LINE, "^t: the number of GPUs is not given; expected --nnodes and --nproc_per_node of torchrun, .* or --gpus$"),
        ("torchrun --nproc_per_node 4 p.py " + LINE,
         "4 GPUs .--nproc_per_node. do not divide by --tensor-model-parallel-size 4 x .* multiples of 8"),
        ("torchrun --nproc_per_node gpu p.py " + LINE, "^t:1: --nproc_per_node: expected a whole number"),
        ("torchrun --nnodes 1:4 --nproc_per_node 8 p.py " + LINE, "^t:1: --nnodes: expected a whole number .* got '1:4'"),
        ("A=1\ntorchrun --nnodes $NODES --nproc_per_node 8 p.py " + LINE, r"^t:2: --nnodes: \$NODES is known only when the script runs"),
        ("python p.py " + LINE + "\npython p.py " + LINE, "^t: 2 training commands, on lines 1, 2; expected one"),
        (LINE + "\n" + LINE, "^t:2: a command begins with --num-layers: the line before does not continue"),
        ("torchrun p.py --bf16 \\\n # all\n" + LINE, "^t:3: a command begins with --num-layers: .* no comment in between"),
        ("torchrun p.py \\ \n" + LINE, "^t:1: the backslash at the end of the line is followed by a blank, so the line ends there"),
        ("cat <<EOF\n" + LINE + "\nEOF\n", "^t:2: here-documents are not read; give the text of this one as a file"),
        ("cat <<EOF\n" + LINE, "^t:1: the here-document that begins here has no line 'EOF' that ends it"),
    ],
)
def test_malformed_scripts_are_refused_with_their_line(text, message):
    with pytest.raises(InputError, match=message) as error:
        import_megatron(text, "t")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("--num-layers 24", "", "^t: --num-layers is missing"),
        ("--num-layers 24", "--num-layers", "^t:1: --num-layers: expected one value, got none"),
        ("--num-layers 24", "--num-layers many", "^t:1: --num-layers: expected a whole number from 1 to 100,000, got 'many'"),
        ("--num-layers 24", "--num-layers 24 25", "expected one value, got 2"),
        ("--num-layers 24", "--num-layers 23", "23 layers do not divide into 2 pipeline stages"),
        ("--num-layers 24", "--num-layers -1", "whole number"),
        ("--num-layers 24", "--num-layers $(cat layers)", r"\$\(cat layers\) is known only when the script runs"),
        ("--num-layers 24", "--num-layers '24", "the ' that begins here is never closed"),
        ("heads 16", "heads 18", "18 heads do not divide by --tensor-model-parallel-size 4"),
        ("size 64", "size 63", "63 sequences do not divide into micro-batches of 2 on 2 replicas; allowed: multiples of 4"),
        ("--bf16", "--bf16 --fp16", "^t:1: --fp16: --bf16 is given too"),
        ("--bf16", "--bf16 yes", "--bf16: expected no value, got 'yes'"),
        ("--bf16", "--recompute-granularity half", "unknown value 'half'; allowed: full, selective"),
        ("--bf16", "--group-query-attention --num-query-groups 3", "expected a divisor of --num-attention-heads 16, got 3"),
    ],
)
def test_wrong_options_are_refused_by_name(old, new, message):
    text = LINE.replace(old, new)
    with pytest.raises(InputError, match=message):
        import_megatron(text, "t", gpus=16)


SCRIPT = "torchrun --nnodes 1 --nproc_per_node 8 p.py " + LINE


@pytest.mark.parametrize(
    "text, line",
    [
        ("echo \"" + SCRIPT + "\"\n" + SCRIPT, "layers: 24"),
        ("CMD='" + SCRIPT + "'\necho $CMD\neval \"$CMD\"", "layers: 24"),
        ("L=12\nsrun -N 1 bash -c \"cd x && " + SCRIPT.replace("24", "'$L'") + "\"", "layers: 12"),
        ("ssh a \"bash -c '" + SCRIPT + "'\"", "layers: 24"),
        ("A='--num-layers 24'\n" + SCRIPT.replace("--num-layers 24", '"$A"'), "layers: 24"),
        ("L=12\nbash -c 'L=48; " + SCRIPT.replace("24", "$L") + "'", "layers: 48"),
        ("cat > notes <<EOF\npython p.py --num-layers 9\nEOF\n" + SCRIPT, "layers: 24"),
        ("L=${L:-24}\nH=$((L * 4))\n" + SCRIPT.replace("24", "$H"), "layers: 96"),
        (SCRIPT.replace("--num-layers 24", "--num-\\\nlayers=\"24\""), "layers: 24"),
        (SCRIPT + " # --num-layers 48", "layers: 24"),
    ],
)
def test_odd_scripts_that_are_clear(text, line):
    assert f"\n  {line} " in import_megatron(text, "t").text


def test_what_is_not_clear_in_a_script_is_said():
    command = f"{SCRIPT.replace('24', '$L')} $EXTRA --lr 1 $MORE --save $D --bf16 $LAST"
    text = f"L=24\nsource env.sh\nif [ $1 ]; then\n  L=48\nfi\n[ -z $2 ] && B=1\n{command}"
    imported = import_megatron(text, "t")
    assert "the script branches or loops (lines 3, 6): every assignment there is taken once, the last one counts (L, B)" in imported.notes
    known = "known only when the script runs"
    assert {
        "source env.sh on line 2: other files are not read", f"$MORE: {known}", f"$D (after --save): {known}",
        f"$LAST (after --bf16): {known}",
    } <= {*imported.unused}  # fmt: skip
    assert any(word.startswith("$EXTRA") for word in imported.unused)


def test_a_command_that_holds_itself_ends():
    with pytest.raises(InputError, match=r"^t:2: a command in a command, again and again; allowed: 4 levels"):
        import_megatron("X='a --num-layers 1 \"$X\"'\neval \"$X\"\n", "t")


def test_a_variable_of_a_loop_is_not_what_it_was_before():
    text = "TP=4\nfor TP in 1 2; do\n" + SCRIPT.replace("parallel-size 4", "parallel-size $TP") + "\ndone"
    with pytest.raises(InputError, match=r"^t:3: --tensor-model-parallel-size: \$TP is known only when the script runs"):
        import_megatron(text, "t")


def test_wrong_calls():
    for options, message in (({"gpus": 0}, "^--gpus: expected"), ({"gpus": 16, "cluster": ""}, "^--cluster: expected")):
        with pytest.raises(InputError, match=message):
            import_megatron(LINE, "t", **options)


def test_lines_of_the_script_are_named():
    text = samples.SCRIPT_175B.replace("--micro-batch-size 1", "--micro-batch-size one")
    line = text[: text.index("--micro-batch-size")].count("\n") + 1
    with pytest.raises(InputError, match=re.escape(f"train.sh:{line}: --micro-batch-size")):
        import_megatron(text, "train.sh")


def test_nothing_is_read_or_run(tmp_path):
    target = tmp_path / "made"
    import_megatron(f"X=$(touch {target})\n`touch {target}`\n" + LINE, "t", gpus=8)
    assert not Path(target).exists()


def test_a_script_on_an_imported_machine(tmp_path):
    topology = tmp_path / "box.yaml"
    topology.write_text(import_nvidia_smi(samples.hgx_h100(), "topo.txt", name="box").text)
    job = loaded(import_megatron(samples.SCRIPT_175B, "train.sh", cluster=str(topology)), tmp_path)
    assert job.cluster.name == "box" and job.cluster.gpu.name == "H100-SXM5-80GB" and job.grid.ranks == 1024
