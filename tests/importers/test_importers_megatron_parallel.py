"""Megatron-LM's parallelism, experts and stages against values worked out by hand; what is refused, and what is only listed."""

import pytest

from clustersim import experiment
from clustersim.errors import InputError
from clustersim.importers.megatron import import_megatron
from clustersim.importers.megatron_experts import expert_layers, layer_pattern
from clustersim.importers.megatron_stages import layout_stages, split_evenly
from clustersim.simulation import simulate
from tests.importers import samples

BASE = (
    "--hidden-size 512 --num-attention-heads 8 --seq-length 256 --micro-batch-size 1 --vocab-size 1024 --bf16"
    " --moe-token-dispatcher-type alltoall "
)


def imported(added, gpus=16, layers=24, batch=64):
    return import_megatron(f"--num-layers {layers} --global-batch-size {batch} {BASE} {added}", "t", gpus=gpus)


@pytest.fixture
def job(tmp_path):
    def load(added, **options):
        path = tmp_path / "imported.yaml"
        path.write_text(imported(added, **options).text)
        return experiment.load(path)

    return load


def refused(added, message, **options):
    with pytest.raises(InputError, match=message) as error:
        imported(added, **options)
    assert "\n" not in str(error.value)


T2, T2P2, P2, P4 = "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", *(
    f"--pipeline-model-parallel-size {p}" for p in (2, 4)
)


def test_context_ranks_come_out_of_the_data_ranks(job):
    one = job(f"{T2P2} --context-parallel-size 2")
    assert (one.grid.tensor, one.grid.context, one.grid.data, one.grid.pipeline) == (2, 2, 2, 2)
    assert one.micro_batches == 64 // 2, "16 GPUs / (2 x 2 x 2) = 2 replicas, of 32 micro-batches of 1"
    assert one.grid.rank(pipeline=1, copy=1, tensor=1) == 8 + 2 + 1, "tensor, context, data, pipeline"
    other = job(f"{T2P2} --context-parallel-size 2 --use-tp-pp-dp-mapping")
    assert other.grid.order == ("tensor", "context", "pipeline", "data") and other.grid.rank(1, 1, 1) == 4 + 2 + 1
    refused("--context-parallel-size 3", "16 GPUs .* x --context-parallel-size 3; allowed: multiples of 3")


def test_sequence_parallel(job):
    assert job(f"{T2} --sequence-parallel").sequence_parallel and not job(T2).sequence_parallel
    alone = imported("--sequence-parallel --tp-comm-overlap")
    assert "--sequence-parallel: only with --tensor-model-parallel-size of 2 or more" in alone.unused
    assert any(line.startswith("--tp-comm-overlap: only with --sequence-parallel") for line in alone.unused)
    assert job(f"{T2} --sequence-parallel --tp-comm-overlap").strategy.async_tensor
    assert any(line.startswith("--tp-comm-overlap:") for line in imported(f"{T2} --tp-comm-overlap").unused)


MOE = "--num-experts 8 --expert-model-parallel-size 4"


def test_a_mixture(job):
    model = job(f"{MOE} --moe-router-topk 3 --moe-ffn-hidden-size 128 --moe-shared-expert-intermediate-size 256").model
    assert (model.experts, model.top_k, model.expert_ffn, model.shared_ffn, model.ffn) == (8, 3, 128, 256, 2048)
    assert model.moe_layers == 24
    plain = job(MOE)
    assert (plain.model.top_k, plain.model.expert_ffn, plain.model.shared_ffn) == (2, 2048, 0), "Megatron-LM's defaults"
    assert plain.grid.expert == 4 and plain.grid.data == 16
    assert job("--num-experts 1 --moe-ffn-hidden-size 128").model.experts == 0
    assert "--moe-ffn-hidden-size: only with --num-experts of 2 or more" in imported("--moe-ffn-hidden-size 128").unused


def test_a_script_with_all_of_it(tmp_path):
    path = tmp_path / "imported.yaml"
    path.write_text(import_megatron(samples.SCRIPT_MIXTURE, "t").text)
    one = experiment.load(path)
    grid, model, strategy = one.grid, one.model, one.strategy
    assert (grid.tensor, grid.context, grid.data, grid.pipeline, grid.expert) == (2, 2, 8, 2, 4) and one.micro_batches == 16
    assert (model.experts, model.dense_layers, model.moe_every, model.moe_layers) == (64, 1, 1, 26)
    assert (strategy.name, strategy.stages, strategy.bucket_bytes) == ("interleaved-1f1b", (6, 7, 7, 7), 200_000_000)


@pytest.mark.parametrize(
    "given, dense, every, moe",
    [
        ("3", 0, 3, [0, 3, 6, 9]), ("'([0]*1+[1]*11)'", 1, 1, list(range(1, 12))), ("'[0]*3+[1]*9'", 3, 1, list(range(3, 12))),
        ("'([0,1]*6)'", 1, 2, [1, 3, 5, 7, 9, 11]), ('"\'([1]*12)\'"', 0, 1, list(range(12))), ("[0]*11+[1]", 11, 1, [11]),
        ("'[0] + ([1] + [0]*4)*2 + [1]'", 1, 5, [1, 6, 11]),
    ],
)  # fmt: skip
def test_layers_with_experts(job, given, dense, every, moe):
    model = job(f"--num-experts 8 --moe-layer-freq {given}", layers=12).model
    assert (model.dense_layers, model.moe_every) == (dense, every)
    assert [layer for layer in range(12) if model.is_moe(layer)] == moe


@pytest.mark.parametrize(
    "given, message",
    [
        ("'[0]*3+[1]*8'", "^t:1: --moe-layer-freq: expected a list of --num-layers 12 numbers, got 11"),
        ("'[0]*12'", "no layer has experts"), ("'[1,1,0]*4'", "unequal distances"), ("'[1]*6+[0]*6'", "unequal distances"),
        ("'[2]*12'", "expected a whole number or lists of 0 and 1"), ("'__import__(1)'", "expected a whole number or lists"),
        ("'[1]*99999999999'", "lists of 0 and 1"), ("'([1]*99999)*99999'", "lists of 0 and 1"), ("'('", "lists of 0 and 1"),
        ("0", "from 1 to 12"),
        ("13", "from 1 to 12"), ("'[1]*-1'", "lists of 0 and 1"), ("'12 * 1'", "lists of 0 and 1"),
    ],
)  # fmt: skip
def test_layers_with_experts_that_do_not_fit_are_refused(given, message):
    refused(f"--num-experts 8 --moe-layer-freq {given}", message, layers=12)


def test_deep_expressions_end():
    for text in ("(" * 50_000, "[1]" + "+[1]" * 20_000, "-" * 10_000 + "1"):
        with pytest.raises(ValueError, match="expected"):
            layer_pattern(text)
    assert expert_layers([1]) == (0, 1)


def test_expert_groups():
    refused("--expert-model-parallel-size 2", "^t:1: --expert-model-parallel-size: expected 1 where --num-experts gives no experts")
    refused("--num-experts 6 --expert-model-parallel-size 4", "expected a divisor of --num-experts 6, got 4")
    refused(f"{MOE} --tensor-model-parallel-size 8", "groups of 4 ranks do not divide the 2 data ranks")
    refused(f"{MOE} --moe-router-topk 9", "^t:1: --moe-router-topk: expected at most --num-experts 8, got 9")
    refused(f"{MOE} {P2} --use-tp-pp-dp-mapping", "^t:1: --use-tp-pp-dp-mapping: not with expert parallelism")
    assert any("context and data ranks together" in note for note in imported(f"{MOE} --context-parallel-size 2").notes)
    assert not any("expert" in note for note in imported(MOE).notes)


def test_whole_experts_on_tensor_ranks(job):
    assert job(f"{MOE} {T2} --expert-tensor-parallel-size 2").grid.expert == 4
    one = f"{MOE} {T2} --expert-tensor-parallel-size 1"
    assert job(one).grid.expert == 2, "8 whole experts on 4 ranks: 2 on each; 8 halves on 2 groups: 4 halves on each"
    assert any(note.startswith("--expert-tensor-parallel-size is 1: whole experts on 4 ranks") for note in imported(one).notes)
    refused(f"--num-experts 8 {T2} --expert-tensor-parallel-size 1", "whole experts take .* in multiples of the 2 tensor ranks, got 1")
    refused(f"{MOE} --tensor-model-parallel-size 4 --expert-tensor-parallel-size 2",
            "experts are divided over all 4 tensor ranks; allowed: 4, or 1")


def test_the_dispatcher_is_said_where_it_is_another():
    notes = import_megatron(f"--num-layers 4 --global-batch-size 64 {BASE.replace('--moe-token-dispatcher-type alltoall', '')} {MOE}", "t",
                            gpus=16).notes
    assert any("--moe-token-dispatcher-type is allgather (Megatron-LM's default)" in note for note in notes)


@pytest.mark.parametrize("given, chunks",
                         [("--num-layers-per-virtual-pipeline-stage 2", 3), ("--num-virtual-stages-per-pipeline-rank 2", 2)])
def test_interleaved_stages(job, given, chunks):
    strategy = job(f"{P4} {given}").strategy
    assert (strategy.name, strategy.chunks, strategy.group, strategy.sends) == ("interleaved-1f1b", chunks, 4, "asynchronous")
    assert job(f"{P4} {given}").schedule.placement == (0, 1, 2, 3) * chunks
    assert job(f"{P4} {given} --no-overlap-p2p-communication").strategy.sends == "blocking"
    assert job(f"{P4} {given} --microbatch-group-size-per-virtual-pipeline-stage 8").strategy.group == 8
    with pytest.raises(InputError,
                       match=r"group 3 cuts 16 micro-batches into groups .* smaller than the 4 ranks; allowed for strategy.group"):
        job(f"{P4} {given} --microbatch-group-size-per-virtual-pipeline-stage 3")
    with pytest.raises(InputError, match="group 4 cuts 6 micro-batches"):
        job(f"{P4} {given}", batch=24)


def test_one_stage_a_rank_is_not_interleaved(job):
    for added in ("", "--num-virtual-stages-per-pipeline-rank 1", "--num-layers-per-virtual-pipeline-stage 6",
                  "--no-overlap-p2p-communication"):
        strategy = job(f"{P4} {added}").strategy
        assert (strategy.name, strategy.sends) == ("standard", "blocking"), "only interleaved stages overlap their messages"
    assert job("").strategy.sends == "asynchronous", "nothing is sent"
    unused = imported(f"{P4} --no-overlap-p2p-communication --microbatch-group-size-per-virtual-pipeline-stage 4").unused
    assert "--microbatch-group-size-per-virtual-pipeline-stage: only with interleaved stages" in unused
    assert any(line.startswith("--no-overlap-p2p-communication: only with interleaved") for line in unused)


def test_interleaved_stages_that_do_not_fit_are_refused():
    refused(f"{P4} --num-layers-per-virtual-pipeline-stage 4",
            "^t:1: --num-layers-per-.*: expected a divisor of the 6 layers of a pipeline rank, got 4")
    refused(f"{P4} --num-virtual-stages-per-pipeline-rank 4", "expected a divisor of the 6 layers of a pipeline rank, got 4")
    refused("--num-virtual-stages-per-pipeline-rank 2", "interleaved stages need a pipeline")
    refused(f"{P4} --num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 3",
            "is given too; expected one of them")
    refused(
        f"{P4} --decoder-first-pipeline-num-layers 3 --num-layers-per-virtual-pipeline-stage 1",
        "--num-virtual-stages-per-pipeline-rank gives their number"
    )


@pytest.mark.parametrize(
    "given, stages",
    [
        ("--decoder-first-pipeline-num-layers 3", (3, 7, 7, 7)),
        ("--decoder-last-pipeline-num-layers 3", (7, 7, 7, 3)),
        ("--decoder-first-pipeline-num-layers 5 --decoder-last-pipeline-num-layers 5", (5, 7, 7, 5)),
        ("--decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 4 --num-virtual-stages-per-pipeline-rank 2",
         (2, 4, 4, 2) * 2),
        ("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --num-layers 22", (5, 6, 6, 5)),
        ("--account-for-loss-in-pipeline-split --num-layers 23", (6, 6, 6, 5)),
        ("--account-for-embedding-in-pipeline-split --num-layers 23 --num-layers-per-virtual-pipeline-stage 3", (2, 3, 3, 3, 3, 3, 3, 3)),
        ("--pipeline-model-parallel-layout 'Ettt|t*7|(t,)*7|t*7L'", (3, 7, 7, 7)),
        ("--pipeline-model-parallel-layout 'Et|(ttt|)*6,ttttt,L'", (1, 3, 3, 3, 3, 3, 3, 5)),
    ],
)  # fmt: skip
def test_uneven_stages(job, given, stages):
    one = job(f"{P4} {given}")
    assert one.strategy.stages == stages and tuple(map(len, one.stage_layers)) == stages
    assert one.strategy.name == ("standard" if len(stages) == 4 else "interleaved-1f1b")


@pytest.mark.parametrize(
    "given, message",
    [
        ("--decoder-first-pipeline-num-layers 4",
         "^t:1: --decoder-first-pipeline-num-layers: leaves 20 of 24 layers to 3 other pipeline stages"),
        ("--decoder-last-pipeline-num-layers 24", "leaves 0 of 24 layers to 3 other"),
        ("--decoder-last-pipeline-num-layers 3 --account-for-loss-in-pipeline-split", "--decoder-last-pipeline-num-layers is given too"),
        ("--account-for-loss-in-pipeline-split", "24 layers and one for --account-for-loss-in-pipeline-split do not divide into 4"),
        ("--account-for-loss-in-pipeline-split --num-layers 3", "a stage would be left without a layer: .1, 1, 1, 0."),
        ("--num-layers 23", "23 layers do not divide into 4 pipeline stages; --decoder-first"),
        ("--pipeline-model-parallel-layout 'Et*12|t*12L'", "2 stages on 4 pipeline ranks; allowed: a multiple of 4"),
        ("--pipeline-model-parallel-layout 'Et*12|t*12||L'", r"stage 2 \(''\) has no layer"),
        ("--pipeline-model-parallel-layout 'E|t*12|t*12|mL'", r"stage 0 \('E'\) has no layer; stages of embedding, MTP or loss alone"),
        ("--pipeline-model-parallel-layout 'Et*6|t*6|t*6|t*5L'", r"it has 23 layers \(t\); expected --num-layers 24"),
        ("--pipeline-model-parallel-layout 't*6|t*6|t*6|t*6L'", "expected E once, as the first letter"),
        ("--pipeline-model-parallel-layout 'Ex'", "^t:1: --pipeline-model-parallel-layout: expected the letters"),
        ("--pipeline-model-parallel-layout 'Et*999999|(t*9)*999999'", "expected at most"),
        ("--pipeline-model-parallel-layout 'Et*99999999999'", "expected the letters"),
        ("--pipeline-model-parallel-layout 'Et|t|t|tL' --num-virtual-stages-per-pipeline-rank 2", "is given too"),
        ("--pipeline-model-parallel-layout 'Et|t|t|tL' --decoder-last-pipeline-num-layers 2", "is given too"),
    ],
)  # fmt: skip
def test_uneven_stages_that_do_not_fit_are_refused(given, message):
    refused(f"{P4} {given}", message)


def test_pieces_of_the_stages():
    assert layout_stages("E,t*2|(tt|)*2L") == ["Ett", "tt", "tt", "L"]
    assert split_evenly(6, 1, 1, True, True) == [6] and split_evenly(6, 2, 2, True, True) == [1, 2, 2, 1]
    assert any("multi-token" in note for note in imported(f"{P4} --pipeline-model-parallel-layout 'Et*6|t*6|t*6|t*6mL'").notes)
    unused = imported("--decoder-first-pipeline-num-layers 5 --account-for-loss-in-pipeline-split").unused
    assert [line for line in unused if "only with --pipeline-model-parallel-size of 2" in line] == [
        "--decoder-first-pipeline-num-layers: only with --pipeline-model-parallel-size of 2 or more",
        "--account-for-loss-in-pipeline-split: only with --pipeline-model-parallel-size of 2 or more",
    ]


def test_buckets(job):
    overlap = "--overlap-grad-reduce"
    assert job(f"{overlap} --ddp-bucket-size 1000001").strategy.bucket_bytes == 2_000_002
    assert job(overlap).strategy.bucket_bytes == 80_000_000, "40 million elements of 2 bytes"
    assert job(overlap, gpus=64).strategy.bucket_bytes == 128_000_000, "a million for each of 64 copies"
    assert job(f"{overlap} --context-parallel-size 2", gpus=64).strategy.bucket_bytes == 128_000_000, "32 x 2 copies"
    assert job("").strategy.bucket_bytes is None
    assert any(line.startswith("--ddp-bucket-size: only with --overlap-grad-reduce") for line in imported("--ddp-bucket-size 5").unused)
    fp32 = import_megatron(f"--num-layers 4 --global-batch-size 64 {BASE.replace('--bf16', '')} {overlap} --ddp-bucket-size 1000", "t",
                           gpus=16)
    assert "\n  bucket: 4 kB " in fp32.text
    notes = [any("buckets on all pipeline stages" in note for note in imported(f"{overlap} {p}").notes) for p in ("", P2)]
    assert notes == [False, True]


def test_instances_of_the_optimizer(job):
    option = "--num-distributed-optimizer-instances"
    assert job(f"--use-distributed-optimizer {option} 4").strategy.partition_group == 4, "16 copies over 4"
    assert job(f"--use-distributed-optimizer --context-parallel-size 2 {option} 2").strategy.partition_group == 8, "8 x 2 copies over 2"
    assert job(f"--use-distributed-optimizer {option} 1").strategy.partition_group is None
    refused(f"--use-distributed-optimizer {option} 3", "^t:1: --num-distributed-optimizer-instances: expected a divisor of the 16 copies")
    for added in ("", f"--use-distributed-optimizer {MOE}"):
        assert any(line.startswith(f"{option}: only where state is partitioned") for line in imported(f"{added} {option} 2").unused)


@pytest.mark.parametrize(
    "given, offload",
    [("", "none"), ("--optimizer-cpu-offload", "optimizer"), ("--cpu-offloading", "activations"),
     ("--optimizer-cpu-offload --cpu-offloading", "all")],
)
def test_offload(job, given, offload):
    assert job(given).strategy.offload == offload


def test_partitioned_gradients_of_interleaved_stages_go_by_micro_batch(job):
    fsdp = "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"
    strategy = job(f"{P4} --num-virtual-stages-per-pipeline-rank 2 {fsdp}").strategy
    assert (strategy.timing, strategy.partition) == ("micro_batch", "gradients")
    assert job(f"{P4} {fsdp}").strategy.timing == "micro_batch"


@pytest.mark.parametrize(
    "added",
    [
        f"{T2P2} --context-parallel-size 2 --sequence-parallel --tp-comm-overlap --use-distributed-optimizer --overlap-grad-reduce",
        f"{T2P2} {MOE} --sequence-parallel --moe-layer-freq '[0]*1+[1]*7' --overlap-grad-reduce",
        f"{P4} --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
        f"{P2} --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
        f"{P4} --pipeline-model-parallel-layout 'Et|tt|tt|tttL' --optimizer-cpu-offload --cpu-offloading",
        "--use-distributed-optimizer --num-distributed-optimizer-instances 4 --overlap-grad-reduce --ddp-bucket-size 4000000",
    ],
)
def test_what_is_imported_runs(job, added):
    run = simulate(job(added, layers=8))
    assert run.summary["step_time_s"] > 0 and run.summary["ranks"] == 16
