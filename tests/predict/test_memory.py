"""The memory of settings that were not measured: arithmetic that can be checked in the head."""

import pytest

from paceline.predict.memory import Known, fits, forecast
from paceline.predict.sharding import share
from paceline.records import Estimate, MemoryUse, ShapeCount, TensorPeak

SHAPES = (ShapeCount(100, 1000, True, 10), ShapeCount(3, 1000, True, 1))  # ten of 100 kB, one of 3 rows
WEIGHTS = 1_003_000
STATE = 2 * WEIGHTS  # Adam's


def used(batch, *, strategy="none", each=10_000, constant=50_000, workers=1, held=None):
    """A network whose activations are `constant + each · batch`, as it would be measured alone or under DDP."""
    always = WEIGHTS if strategy == "ddp" else 0
    fixed = WEIGHTS + STATE
    rest = constant + each * batch
    peak = fixed + always + rest
    return Known(
        f"w{workers}-b{batch}",
        workers,
        batch,
        strategy,
        (),
        MemoryUse(
            parameters_bytes=WEIGHTS,
            gradients_bytes=WEIGHTS,
            optimizer_bytes=STATE,
            buffers_bytes=0,
            activations_bytes=rest,
            buckets_bytes=0 if strategy == "ddp" else None,
            gathered_bytes=0,
            forward=TensorPeak(peak, always),
            backward=TensorPeak(peak, always),
            optimizer=TensorPeak(fixed + WEIGHTS, WEIGHTS),
            peak_bytes=max(peak, fixed + WEIGHTS),
            held_bytes=held,
            device_bytes=None,
            shapes=SHAPES,
            largest_part_bytes=100_000,
            no_part_bytes=3_000,
        ),
    )


def predicted(known, *, workers, batch, strategy, limit=None):
    return forecast(known, workers=workers, batch=batch, strategy=strategy, limit_bytes=limit)


def test_rows_are_cut_and_the_fullest_worker_has_the_rest():
    """4 workers: 25 rows of each large one, and 1 of 3 rows."""
    assert share(SHAPES, "fsdp2", 4).parameters_bytes == 10 * 25_000 + 1_000
    assert share(SHAPES, "hsdp", 4).parameters_bytes == share(SHAPES, "fsdp2", 2).parameters_bytes
    assert share(SHAPES, "ddp", 4).parameters_bytes == WEIGHTS


def test_zero_1_deals_whole_parameters_out():
    """Ten equal ones among 4: two workers get three, and the small one goes to who has least."""
    dealt = share(SHAPES, "zero1", 4)
    assert (dealt.parameters_bytes, dealt.kept_bytes) == (WEIGHTS, 300_000)


def test_two_batches_give_a_line_and_a_third_lies_on_it():
    known = [used(8), used(32)]
    found = predicted(known, workers=1, batch=500, strategy="none")
    assert found.tensors_bytes.value == pytest.approx(WEIGHTS + STATE + 50_000 + 500 * 10_000)
    assert found.measured == ("w1-b8", "w1-b32")


def test_from_one_batch_the_interval_is_wider():
    one = predicted([used(8)], workers=1, batch=64, strategy="none").tensors_bytes
    two = predicted([used(8), used(16)], workers=1, batch=64, strategy="none").tensors_bytes
    assert one.high - one.low > 2 * (two.high - two.low)


def test_sharding_divides_weights_and_state_and_adds_what_is_gathered():
    """Half of weights and state (of 3 rows the first worker has 2), and 3 kB and twice 100 kB of others."""
    found = predicted([used(8), used(32)], workers=2, batch=100, strategy="fsdp2")
    half = 10 * 50_000 + 2_000
    assert found.tensors_bytes.value == pytest.approx(3 * half + 203_000 + 50_000 + 100 * 10_000)


def test_ddp_holds_gradients_all_the_time_and_its_buckets_may_be_copies_of_them():
    found = predicted([used(8), used(32)], workers=2, batch=100, strategy="ddp").tensors_bytes
    plain = WEIGHTS + STATE + 50_000 + 100 * 10_000
    assert found.value == pytest.approx(plain + 2 * WEIGHTS)
    assert found.low < plain + WEIGHTS < found.value  # where gradients are views of buckets


def test_where_activations_are_few_the_optimizer_step_is_the_peak():
    found = predicted([used(8, each=1), used(32, each=1)], workers=1, batch=9, strategy="none")
    assert found.tensors_bytes.value == pytest.approx(WEIGHTS + STATE + WEIGHTS)


def test_what_no_tensor_holds_comes_on_top():
    beyond = 6_000_000
    known = [used(batch, held=used(batch).use.peak_bytes + beyond) for batch in (8, 32)]
    found = predicted(known, workers=1, batch=100, strategy="none")
    assert found.held_bytes.value == pytest.approx(found.tensors_bytes.value + beyond)


@pytest.mark.parametrize(("limit", "said"), [(12, "yes"), (11, "unsure"), (8, "no"), (None, None)])
def test_it_fits_where_all_of_the_interval_does(limit, said):
    assert fits(Estimate(10, 9, 12, 1), limit) == said
