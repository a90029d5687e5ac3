import json

import pytest

from clustersim import experiment
from clustersim.errors import InputError
from clustersim.importers.deepspeed import import_deepspeed
from clustersim.simulation import simulate
from tests.importers import samples


def imported(text, **options):
    return import_deepspeed(text if isinstance(text, str) else json.dumps(text, indent=1), "ds.json",
                            **{"model": "llama2-7b", "gpus": 32, **options})


def loaded(tmp_path, text, **options):
    path = tmp_path / "imported.yaml"
    path.write_text(imported(text, **options).text)
    return experiment.load(path)


def test_a_configuration(tmp_path):
    job = loaded(tmp_path, samples.DEEPSPEED)
    assert (job.global_batch, job.micro_batch, job.grid.data, job.micro_batches) == (256, 4, 32, 2)
    assert (job.strategy.partition, job.strategy.overlap, job.precision) == ("parameters", True, "bf16")
    unused = imported(samples.DEEPSPEED).unused
    assert [name.split(":")[0] for name in unused] == [
        "gradient_clipping", "zero_optimization.contiguous_gradients", "zero_optimization.stage3_prefetch_bucket_size",
        "zero_optimization.zero_hpz_partition_size", "optimizer", "wall_clock_breakdown",
    ]  # fmt: skip
    assert (job.strategy.offload, job.strategy.bucket_bytes) == ("optimizer", 10**9), "5e8 elements of 2 bytes"


def zero(**keys):
    return {"train_batch_size": 32, "bf16": {"enabled": True}, "zero_optimization": keys}


def test_buckets_of_gradients(tmp_path):
    def bucket(text, **options):
        return loaded(tmp_path, text, **options).strategy.bucket_bytes

    assert bucket(zero(stage=2)) == 10**9, "DeepSpeed's default, 5e8 elements"
    assert bucket(zero(stage=1, reduce_bucket_size=2e8)) == 4 * 10**8 == bucket(zero(stage=3, reduce_bucket_size=200000000))
    assert bucket({"train_batch_size": 32, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000}}) == 4000, "fp32"
    assert bucket(zero(stage=0, reduce_bucket_size=2e8)) is None
    assert "zero_optimization.reduce_bucket_size: only with ZeRO" in imported(zero(reduce_bucket_size=2e8)).unused
    auto = zero(stage=3, reduce_bucket_size="auto")
    assert bucket(auto) is None and any("reduce_bucket_size: \"auto\" is filled" in line for line in imported(auto).unused)
    assert bucket(auto, values={"zero_optimization.reduce_bucket_size": 1000}) == 2000
    for wrong in (0, -1, 1.5, True, "5e8", [], 1e30):
        with pytest.raises(InputError, match=r"^ds.json:[0-9]+: zero_optimization.reduce_bucket_size: expected a whole number of elements"):
            imported(zero(stage=2, reduce_bucket_size=wrong))


def test_offload(tmp_path):
    def offload(given, stage=2):
        text = zero(stage=stage, offload_optimizer=given)
        return loaded(tmp_path, text).strategy.offload, [line for line in imported(text).unused if "offload" in line]

    key = "zero_optimization.offload_optimizer"
    assert offload({"device": "cpu", "pin_memory": True}) == ("optimizer", [])
    assert offload({"device": "cpu", "ratio": 0.5}) == ("optimizer", [f"{key}.ratio: all of the optimizer's state lies on the host"])
    assert offload({"device": "nvme"}) == ("none", [f"{key}: device nvme is not simulated"])
    assert offload({"device": "none"}) == ("none", [f"{key}: nothing is offloaded"]) == offload({})
    assert offload({"device": "cpu"}, stage=0) == ("none", [f"{key}: only with ZeRO"])
    assert offload(None) == ("none", [])
    for wrong, message in (("cpu", "expected an object with keys, got 'cpu'"), ({"device": 1}, "device: expected")):
        with pytest.raises(InputError, match=message):
            imported(zero(stage=2, offload_optimizer=wrong))


def test_what_has_another_meaning_is_listed_or_refused():
    unused = imported({**zero(stage=3, zero_hpz_partition_size=8, mics_shard_size=8), "pipeline": {"stages": "auto"}}).unused
    assert [line.split(":")[0] for line in unused] == [
        "zero_optimization.zero_hpz_partition_size", "zero_optimization.mics_shard_size", "pipeline",
    ]  # fmt: skip
    assert all(": " in line for line in unused)
    assert imported({**zero(stage=3), "sequence_parallel_size": 1}).unused == ()
    with pytest.raises(InputError, match="sequence_parallel_size: ranks that exchange sequence for heads are not simulated; allowed: 1"):
        imported({**zero(stage=3), "sequence_parallel_size": 2})


def test_what_is_imported_runs(tmp_path):
    for keys in ({"stage": 1}, {"stage": 2, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}}, {"stage": 3}):
        assert simulate(loaded(tmp_path, zero(**keys))).summary["step_time_s"] > 0


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}, (64, 2)),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, (64, 1)),
        ({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}, (192, 2)),
        ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}, (64, 1)),
        ({"train_batch_size": 64}, (64, 2)),
        ({"train_micro_batch_size_per_gpu": 2}, (64, 2)),
    ],
)
def test_any_two_batch_sizes_give_the_third(given, expected, tmp_path):
    job = loaded(tmp_path, {**given, "fp16": {"enabled": True}})
    assert (job.global_batch, job.micro_batch) == expected and job.precision == "fp16"


@pytest.mark.parametrize("stage, partition, overlap",
                         [(0, "none", False), (1, "optimizer", False), (2, "gradients", False), (3, "parameters", True)])
def test_zero_stages_and_the_default_of_overlap(stage, partition, overlap, tmp_path):
    strategy = loaded(tmp_path, {"train_batch_size": 32, "zero_optimization": {"stage": stage}}).strategy
    assert (strategy.partition, strategy.overlap) == (partition, overlap)


def test_overlap_as_given(tmp_path):
    def overlap(stage, value):
        return loaded(tmp_path, {"train_batch_size": 32, "zero_optimization": {"stage": stage, "overlap_comm": value}}).strategy.overlap

    assert overlap(2, True) and not overlap(3, False) and not overlap(0, True)


def test_options_change_the_file(tmp_path):
    text = {"train_batch_size": 32, "bf16": {"enabled": True}}
    job = loaded(tmp_path, text, gpus=16, tensor=2, pipeline=4, sequence=1024, recompute="full", cluster="dgx-h100", model="gpt3-175b")
    assert (job.grid.data, job.grid.tensor, job.grid.pipeline, job.sequence, job.recompute) == (2, 2, 4, 1024, "full")
    assert job.cluster.name == "dgx-h100" and job.model.name == "gpt3-175b"


def test_auto_needs_a_value(tmp_path):
    text = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": "auto"},
            "optimizer": {"params": {"lr": "auto"}}}
    with pytest.raises(InputError,
                       match=r'^ds.json:2: train_batch_size: "auto" is filled when the job runs; .* --value train_batch_size=VALUE'):
        imported(text)
    with pytest.raises(InputError, match=r"^ds.json:5: bf16.enabled: .auto. is filled"):
        imported(text, values={"train_batch_size": 64})
    job = loaded(tmp_path, text, values={"train_batch_size": 64, "bf16.enabled": True})
    assert job.global_batch == 64 and job.precision == "bf16"


def test_tabs_and_escapes(tmp_path):
    assert loaded(tmp_path, '{\n\t"train_batch_size":\t32,\r\n\t"comment": "a\\tb \\u00e9 \\/"\n}').global_batch == 32


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"train_batch_size": 32,}', r"^ds.json:1: not valid JSON: "),
        ('{\n"train_batch_size": 32\n', r"^ds.json:\d: not valid JSON"),
        ('{\n"train_batch_size": 32,\n"train_batch_size": 64}', "^ds.json:3: train_batch_size: the key is given twice"),
        ('{"zero_optimization": {"stage": 1,\n "stage": 2}}', "^ds.json:2: zero_optimization.stage: the key is given twice"),
        ("[]", "expected a DeepSpeed configuration .JSON., an object with keys, got a list"),
        ("", "the file is empty"),
        ("{}", "train_batch_size and train_micro_batch_size_per_gpu are missing"),
        ('{"gradient_accumulation_steps": 2}', "expected at least one of them"),
        ("\x00\x01", "is not text"),
        ("[" * 100_000, "not valid JSON: nested too deep"),
        ('{"train_batch_size": NaN}', "NaN is not allowed"),
        ('{"train_batch_size": ' + "9" * 5000 + "}", "^ds.json"),
        ('{"train_batch_size": 32.0}', "^ds.json:1: train_batch_size: expected a whole number"),
        ('{"train_batch_size": "32"}', "^ds.json:1: train_batch_size: expected a whole number.* got '32'"),
        ('{"train_batch_size": true}', "expected a whole number.* got [tT]rue"),
        ('{"train_batch_size": 0}', "expected a whole number from 1"),
        ('{"train_batch_size": 33}', "33 does not divide by gradient_accumulation_steps 1 x 32 replicas"),
        ('{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 3}', "allowed: multiples of 96"),
        (
            '{"train_batch_size": 64,\n"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}',
            "^ds.json:1: train_batch_size: 64 contradicts train_micro_batch_size_per_gpu 2 x gradient_accumulation_steps 2 x 32 replicas"
            " = 128",
        ),
        ('{"train_batch_size": 32, "zero_optimization": 3}', "zero_optimization: expected an object with keys, got 3"),
        ('{"train_batch_size": 32, "zero_optimization": {"stage": 4}}',
         "^ds.json:1: zero_optimization.stage: expected a whole number from 0 to 3, got 4"),
        ('{"train_batch_size": 32, "zero_optimization": {"stage": 2, "overlap_comm": 1}}', "overlap_comm: expected true or false, got 1"),
        ('{"train_batch_size": 32, "bf16": {"enabled": true},\n"fp16": {"enabled": true}}',
         "^ds.json:2: fp16.enabled: bf16.enabled is true too"),
        ('{"train_batch_size": 32, "bf16": {"enabled": "yes"}}', "bf16.enabled: expected true or false, got 'yes'"),
    ],
)
def test_malformed_json_is_refused_with_its_place(text, message):
    with pytest.raises(InputError, match=message) as error:
        imported(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"gpus": 0}, "^--gpus: expected"),
        ({"gpus": 8, "tensor": 3}, "^--gpus: 8 GPUs do not divide by tensor 3 x pipeline 1"),
        ({"model": ""}, "^--model: expected"),
        ({"cluster": "\n"}, "^--cluster: expected"),
        ({"sequence": 0}, "^--sequence: expected"),
        ({"recompute": "some"}, "^--recompute: unknown value 'some'; allowed: none, selective, full"),
        ({"values": {"bf16": True}}, "^--value bf16: no such key"),
        ({"pipeline": 2}, "^ds.json:8: zero_optimization.stage: DeepSpeed's pipeline takes ZeRO up to stage 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        imported(samples.DEEPSPEED, **options)
