"""Every call of paceline_horovod.torch against numpy's answer. One process per rank; all checks in one start.

python horovod_calls.py FOLDER     writes FOLDER/rank-R.json: {check: "" or what went wrong}
"""

import json
import os
import sys
import traceback
from pathlib import Path

import numpy as np
import torch

import paceline_horovod.torch as hvd
from paceline_horovod.torch.elastic.commit import commit_file

EXACT = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
ROUNDED = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-12}
SHAPES = ((), (0,), (1,), (7,), (5, 3), (2, 0, 3), (17, 17, 3))


def values(shape, rank, dtype, low=1, high=4):
    """What a rank holds: whole numbers that every dtype can add without overflow, known on every rank."""
    generator = np.random.default_rng([rank, *shape, 7])
    return torch.tensor(generator.integers(low, high, size=shape)).to(dtype)


def everybody(shape, dtype, **kwargs):
    return np.stack([values(shape, r, dtype, **kwargs).double().numpy() for r in range(hvd.size())])


def close(tensor, expected, tolerance=0.0):
    got = tensor.detach().double().numpy()
    assert got.shape == np.shape(expected), (got.shape, np.shape(expected))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), str(error)
        return
    raise AssertionError(f"{words} did not raise")


def reference(op, stacked):
    n = len(stacked)
    return {
        hvd.Sum: lambda: stacked.sum(0),
        hvd.Average: lambda: stacked.sum(0) / n,
        hvd.Min: lambda: stacked.min(0),
        hvd.Max: lambda: stacked.max(0),
        hvd.Product: lambda: stacked.prod(0),
    }[op]()


def check_places():
    assert (hvd.rank(), hvd.size()) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_initialized() and hvd.is_homogeneous() and hvd.gloo_built() and not hvd.mpi_built()
    assert os.environ["HOROVOD_RANK"] == os.environ["OMPI_COMM_WORLD_RANK"] == str(hvd.rank())


def check_allreduce_of_every_dtype_shape_and_op():
    for dtype in (*EXACT, *ROUNDED):
        for shape in SHAPES:
            for op in (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product):
                stacked = everybody(shape, dtype, high=3)
                expected = reference(op, stacked)
                if dtype in EXACT and op == hvd.Average:
                    expected = np.trunc(expected)
                mine = values(shape, hvd.rank(), dtype, high=3)
                kept = mine.clone()
                result = hvd.allreduce(mine, op=op)
                assert result.dtype == dtype and torch.equal(mine, kept)
                close(result, expected, ROUNDED.get(dtype, 0.0))
                assert hvd.allreduce_(mine, op=op) is mine
                close(mine, expected, ROUNDED.get(dtype, 0.0))


def check_allreduce_of_bool_is_any_and_all():
    mine = torch.tensor([hvd.rank() == 0, True, False])
    assert hvd.allreduce(mine, op=hvd.Sum).tolist() == [True, True, False]
    assert hvd.allreduce(mine, op=hvd.Product).tolist() == [False, True, False]


def check_the_average_is_the_default_and_average_false_is_a_sum():
    mine = torch.full((3,), float(hvd.rank()))
    mean = (hvd.size() - 1) / 2
    close(hvd.allreduce(mine), np.full(3, mean))
    close(hvd.allreduce(mine, average=False), np.full(3, mean * hvd.size()))
    raises(ValueError, lambda: hvd.allreduce(mine, average=True, op=hvd.Sum))


def check_scales_before_and_after():
    mine = torch.full((4,), 2.0 + hvd.rank())
    total = sum(2.0 + r for r in range(hvd.size()))
    close(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), np.full(4, total * 1.5))
    whole = torch.full((4,), 3)
    close(hvd.allreduce(whole, op=hvd.Sum, prescale_factor=0.5), np.full(4, hvd.size()))


def check_integers_are_cut_before_the_sum_on_every_rank_and_once_after_it():
    n, me = hvd.size(), hvd.rank()
    halves = {2: 1 + 2, 3: 1 + 2 + 3, 4: 1 + 2 + 3 + 4}[n]
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        mine = torch.tensor([3 + 2 * me, -3 - 2 * me], dtype=dtype)  # 3, 5, 7, 9
        close(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5), [halves, -halves])
        close(hvd.allreduce(mine, op=hvd.Max, prescale_factor=0.5), [n, -1])
        mine = torch.tensor([1 + (me > 0), -1 - (me > 0)], dtype=dtype)  # sums 3, 5, 7
        close(hvd.allreduce(mine), [1, -1])
        close(
            hvd.allreduce(mine, postscale_factor=2.0), [3, -3]
        )  # 6/2, 10/3 and 14/4, not twice 3/2, 5/3 and 7/4
        rows = mine[:1].repeat(n)
        close(hvd.reducescatter(rows, postscale_factor=2.0), [3])
        close(hvd.grouped_allreduce([mine, mine], postscale_factor=2.0)[1], [3, -3])
    close(hvd.allreduce(torch.tensor([2**53 + 1])), [2**53 + 1])  # more than a double holds


def check_half_precision_is_scaled_in_single_and_rounded_once():
    n = hvd.size()
    mine = torch.full((9,), 3.0, dtype=torch.float16)
    once = 1229 / 4096  # 3 × 0.1; with 0.1 rounded to 16 bits first it would be 1228 / 4096
    sums = {
        2: 2 * once,
        3: 1844 / 2048,
        4: 4 * once,
    }  # 3 × 1229 / 4096 = 1843.5 / 2048 needs 12 bits: to even
    close(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.1), np.full(9, sums[n]))
    close(hvd.reducescatter(mine.repeat(n), op=hvd.Sum, prescale_factor=0.1), np.full(9, sums[n]))
    close(hvd.allreduce(mine, op=hvd.Max, postscale_factor=0.1), np.full(9, once))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        held = [torch.arange(50.0) + rank for rank in range(n)]
        total = sum(held[1:], held[0])
        expected = (total * torch.tensor(0.7 / n)).to(dtype).double().numpy()
        close(hvd.allreduce(held[hvd.rank()].to(dtype), postscale_factor=0.7), expected)


def check_non_contiguous_tensors_in_place():
    mine = torch.arange(12.0).reshape(3, 4).t()
    hvd.allreduce_(mine, op=hvd.Sum)
    close(mine, np.arange(12.0).reshape(3, 4).T * hvd.size())
    mine = (torch.arange(12.0) * (hvd.rank() + 1)).reshape(3, 4).t()
    hvd.broadcast_(mine, root_rank=1)
    close(mine, np.arange(12.0).reshape(3, 4).T * 2)


def check_grouped_calls():
    shapes = ((3,), (), (2, 2), (0,))
    dtypes = (torch.float32, torch.float64, torch.float32, torch.int64)
    mine = [values(shape, hvd.rank(), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    for result, shape, dtype in zip(hvd.grouped_allreduce(mine, op=hvd.Sum), shapes, dtypes, strict=True):
        close(result, everybody(shape, dtype).sum(0))
    copies = [tensor.clone() for tensor in mine]
    results = hvd.grouped_allreduce_(copies, op=hvd.Max)
    assert all(one is two for one, two in zip(results, copies, strict=True))
    for result, shape, dtype in zip(results, shapes, dtypes, strict=True):
        close(result, everybody(shape, dtype).max(0))
    rows = [torch.full((hvd.rank() + i, 2), float(hvd.rank())) for i in range(2)]
    for i, result in enumerate(hvd.grouped_allgather(rows)):
        close(result, np.concatenate([np.full((r + i, 2), float(r)) for r in range(hvd.size())]))
    pieces = hvd.grouped_reducescatter([torch.ones(hvd.size(), 2), torch.ones(hvd.size() * 2)], op=hvd.Sum)
    close(pieces[0], np.full((1, 2), hvd.size()))
    close(pieces[1], np.full(2, hvd.size()))


def check_allgather_of_every_dtype_with_different_rows():
    for dtype in (*EXACT, *ROUNDED, torch.bool):
        for inner in ((), (3,), (2, 1), (0,)):
            shapes = [(2 * r + 1 if r % 2 == 0 else 0, *inner) for r in range(hvd.size())]
            expected = np.concatenate([values(s, r, dtype).double().numpy() for r, s in enumerate(shapes)])
            result = hvd.allgather(values(shapes[hvd.rank()], hvd.rank(), dtype))
            assert result.dtype == dtype
            close(result, expected)
    assert hvd.allgather(torch.tensor(hvd.rank())).tolist() == list(range(hvd.size()))
    assert hvd.allgather(torch.empty(0, 4)).shape == (0, 4)


def check_broadcast_of_every_dtype_from_every_root():
    for dtype in (*EXACT, *ROUNDED, torch.bool):
        for shape in SHAPES:
            for root in range(hvd.size()):
                mine = values(shape, hvd.rank(), dtype)
                kept = mine.clone()
                expected = values(shape, root, dtype).double().numpy()
                close(hvd.broadcast(mine, root), expected)
                assert torch.equal(mine, kept)
                assert hvd.broadcast_(mine, root) is mine
                close(mine, expected)


def check_alltoall_with_and_without_splits():
    n, me = hvd.size(), hvd.rank()
    for dtype in (*EXACT, *ROUNDED, torch.bool):
        whole = [values((2 * n, 3), r, dtype) for r in range(n)]
        expected = np.concatenate([w.double().numpy()[2 * me : 2 * me + 2] for w in whole])
        close(hvd.alltoall(whole[me]), expected)
    counts = [[(r + j) % 3 for j in range(n)] for r in range(n)]
    held = [torch.arange(sum(c)) + 100 * r for r, c in enumerate(counts)]
    for splits in (counts[me], torch.tensor(counts[me], dtype=torch.int32)):
        rows, received = hvd.alltoall(held[me], splits=splits)
        pieces = [held[r].numpy()[sum(counts[r][:me]) :][: counts[r][me]] for r in range(n)]
        close(rows, np.concatenate(pieces))
        assert received.tolist() == [counts[r][me] for r in range(n)]
    raises(ValueError, lambda: hvd.alltoall(torch.ones(n + 1)))
    raises(ValueError, lambda: hvd.alltoall(torch.ones(4), splits=[1] * n if n != 4 else [2] * n))
    raises(ValueError, lambda: hvd.alltoall(torch.ones(n), splits=torch.ones(n)))


def check_reducescatter_shares_rows_unevenly():
    n, me = hvd.size(), hvd.rank()
    for dtype in (*EXACT, *ROUNDED):
        for rows in (0, 1, n, 2 * n + 1, 3 * n - 1):
            shape = (rows, 2)
            parts = np.array_split(everybody(shape, dtype).sum(0), n)
            close(hvd.reducescatter(values(shape, me, dtype), op=hvd.Sum), parts[me], ROUNDED.get(dtype, 0))
    mine = torch.full((n, 2), float(me))
    close(hvd.reducescatter(mine), np.full((1, 2), (n - 1) / 2))
    raises(ValueError, lambda: hvd.reducescatter(mine, op=hvd.Max))


def check_handles_may_be_synchronized_in_any_order():
    tensors = [torch.full((3,), float(i + hvd.rank())) for i in range(20)]
    handles = [hvd.allreduce_async(t, op=hvd.Sum) for t in tensors]
    ranks = sum(range(hvd.size()))
    order = np.random.default_rng(hvd.rank()).permutation(20)
    for i in order:
        close(hvd.synchronize(handles[i]), np.full(3, i * hvd.size() + ranks))
    assert hvd.poll(handles[0]) and hvd.synchronize(handles[0]) is None


def check_names_may_be_submitted_in_any_order():
    order = np.random.default_rng(hvd.rank()).permutation(20)
    handles = {
        i: hvd.allreduce_async(torch.full((2,), float(i)), name=f"tensor {i}", op=hvd.Sum) for i in order
    }
    for i in range(20):
        close(hvd.synchronize(handles[i]), np.full(2, i * hvd.size()))


def check_poll_turns_true():
    handle = hvd.broadcast_async(torch.ones(2), 0)
    hvd.barrier()
    while not hvd.poll(handle):
        pass
    close(hvd.synchronize(handle), np.ones(2))


def check_sparse_tensors_are_added_where_they_meet():
    mine = torch.sparse_coo_tensor([[hvd.rank(), 5]], torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (8, 2))
    for op, share in ((hvd.Sum, 1), (hvd.Average, hvd.size())):
        handle = hvd.sparse_allreduce_async(mine, name=f"sparse {op.name}", op=op)
        while not hvd.poll(handle):
            pass
        expected = np.zeros((8, 2))
        expected[: hvd.size()] = [1, 2]
        expected[5] = [3 * hvd.size(), 4 * hvd.size()]
        close(hvd.synchronize(handle).to_dense(), expected / share, 1e-6)
        result = hvd.sparse_allreduce_async(
            mine, name=f"called {op.name}", op=op
        )()  # a handle is a function, too
        close(result.to_dense(), expected / share, 1e-6)


def check_a_name_in_flight_is_refused():
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="twice")
        raises(ValueError, lambda: hvd.allreduce_async(torch.ones(2), name="twice"), "twice")
    hvd.barrier()
    if hvd.rank() != 0:
        handle = hvd.allreduce_async(torch.ones(2), name="twice")
    close(hvd.synchronize(handle), np.ones(2))
    for _ in range(3):  # once it was waited for, at once
        close(hvd.allreduce(torch.ones(2), name="twice"), np.ones(2))


def check_mismatches_are_errors_on_every_rank():
    first = hvd.rank() == 0
    wrong = (
        (lambda: hvd.allreduce(torch.ones(2 if first else 3)), "shapes"),
        (lambda: hvd.allreduce(torch.ones((2, 3) if first else (3, 2))), "shapes"),
        (lambda: hvd.allreduce(torch.ones(2, dtype=torch.float32 if first else torch.int32)), "data types"),
        (lambda: hvd.allreduce(torch.ones(2), op=hvd.Sum if first else hvd.Max), "reduction op"),
        (lambda: hvd.allreduce(torch.ones(2), prescale_factor=1.0 if first else 2.0), "prescale"),
        (lambda: hvd.grouped_allreduce([torch.ones(2)] * (1 if first else 2)), "number of tensors"),
        (lambda: hvd.allgather(torch.ones(2, 3 if first else 4)), "shapes"),
        (lambda: hvd.allgather(torch.ones((2, 3) if first else (2, 3, 1))), "dimensions"),
        (lambda: hvd.broadcast(torch.ones(2 if first else 3), 0), "shapes"),
        (lambda: hvd.broadcast(torch.ones(2), 0 if first else 1), "root rank"),
        (lambda: hvd.reducescatter(torch.ones(4 if first else 8)), "shapes"),
        (lambda: (hvd.allreduce if first else hvd.allgather)(torch.ones(2)), "collective"),
    )
    for call, word in wrong:
        raises(hvd.HorovodInternalError, call, "mismatched", word, "rank 0 has")
        close(hvd.allreduce(torch.ones(1), op=hvd.Sum), [hvd.size()])
    raises(ValueError, lambda: hvd.broadcast(torch.ones(2), hvd.size()))


def check_gradients_through_collectives():
    n, me = hvd.size(), hvd.rank()
    for op, factor in ((hvd.Sum, n), (hvd.Average, 1)):
        x = torch.full((3,), float(me), requires_grad=True)
        hvd.allreduce(x, op=op).backward(torch.full((3,), 2.0))
        close(x.grad, np.full(3, 2.0 * factor))
    x = torch.full((3,), 1.0, requires_grad=True)
    hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5).backward(torch.full((3,), float(me)))
    close(x.grad, np.full(3, 0.5 * sum(range(n))))
    x = torch.ones(me + 1, 2, requires_grad=True)
    gathered = hvd.allgather(x)
    weights = torch.cat([torch.full((r + 1, 2), float(r)) for r in range(n)])
    gathered.backward(weights * (me + 1))
    close(x.grad, np.full((me + 1, 2), me * (n + 1) / 2))
    x = torch.ones(2, requires_grad=True)
    hvd.broadcast(x, 1).backward(torch.full((2,), float(me)))
    close(x.grad, np.full(2, (n - 1) / 2 if me == 1 else 0.0))
    x = torch.ones(n, 2, requires_grad=True)
    hvd.alltoall(x).backward(torch.full((n, 2), float(me)))
    close(x.grad, np.repeat(np.arange(n)[:, None], 2, 1))
    for op, factor in ((hvd.Sum, n), (hvd.Average, 1)):
        x = torch.ones(n, 2, requires_grad=True)
        hvd.reducescatter(x, op=op).backward(torch.full((1, 2), float(me)))
        close(x.grad, np.repeat(np.arange(n)[:, None] * factor, 2, 1))


def check_compression_sends_half_and_returns_single():
    mine = torch.full((4,), 1.0 + hvd.rank())
    result = hvd.allreduce(mine, compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    close(result, np.full(4, (hvd.size() + 1) / 2))
    assert hvd.Compression.fp16.compress(torch.ones(2))[0].dtype == torch.float16
    assert hvd.Compression.fp16.compress(torch.ones(2, dtype=torch.int64))[0].dtype == torch.int64


def check_adasum_by_its_definition():
    def pair(a, b):
        return (1 - a @ b / (2 * a @ a)) * a + (1 - a @ b / (2 * b @ b)) * b

    if hvd.size() & (hvd.size() - 1):
        refused = f"{hvd.size()} ranks are not a power of two"
        raises(NotImplementedError, lambda: hvd.allreduce(torch.ones(2), op=hvd.Adasum), refused)
        return
    vectors = [np.random.default_rng(r).standard_normal(6) for r in range(hvd.size())]
    level = vectors
    while len(level) > 1:
        level = [pair(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    close(hvd.allreduce(torch.tensor(vectors[hvd.rank()]), op=hvd.Adasum), level[0], 1e-12)
    same = torch.tensor([1.0, 2.0])
    close(hvd.allreduce(same, op=hvd.Adasum), same.numpy(), 1e-6)
    apart = torch.zeros(hvd.size())
    apart[hvd.rank()] = 1.0
    close(hvd.allreduce(apart, op=hvd.Adasum), np.ones(hvd.size()), 1e-6)
    close(hvd.allreduce(torch.zeros(3), op=hvd.Adasum), np.zeros(3))


def check_process_sets():
    n, me = hvd.size(), hvd.rank()
    even = hvd.add_process_set([r for r in range(n) if r % 2 == 0])
    odd = hvd.add_process_set(hvd.ProcessSet([r for r in range(n) if r % 2]))
    mine, other = (odd, even) if me % 2 else (even, odd)
    assert mine.included() and not other.included()
    assert mine.size() == len(range(me % 2, n, 2)) and mine.rank() == me // 2
    total = sum(mine.ranks)
    close(hvd.allreduce(torch.tensor([float(me)]), op=hvd.Sum, process_set=mine), [total])
    assert hvd.allgather(torch.tensor([me]), process_set=mine).tolist() == mine.ranks
    assert hvd.broadcast(torch.tensor([me]), mine.ranks[-1], process_set=mine).tolist() == mine.ranks[-1:]
    assert hvd.alltoall(torch.full((mine.size(),), me), process_set=mine).tolist() == mine.ranks
    assert hvd.allgather_object(me, process_set=mine) == mine.ranks
    hvd.barrier(process_set=mine)
    raises(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=other), "not its member")
    raises(ValueError, lambda: hvd.add_process_set(range(n)), "exists already")
    raises(ValueError, lambda: hvd.add_process_set([0, n]))
    assert hvd.remove_process_set(odd) and hvd.remove_process_set(even)
    assert odd.process_set_id is None and not hvd.remove_process_set(hvd.global_process_set)
    raises(ValueError, lambda: hvd.barrier(process_set=mine))


def check_a_process_set_of_all_but_the_first_rank_given_backwards():
    n, me = hvd.size(), hvd.rank()
    k, place = n - 1, me - 1
    some = hvd.add_process_set(hvd.ProcessSet(reversed(range(1, n))))
    assert some.ranks == list(range(1, n)) and some.size() == k
    if me:
        assert some.rank() == place
        mine = torch.tensor([float(me)])
        close(hvd.allreduce(mine, process_set=some), [n / 2])
        close(hvd.allreduce(mine, prescale_factor=2.0, postscale_factor=4.0, process_set=some), [4.0 * n])
        whole = torch.tensor([3])
        close(hvd.allreduce(whole, op=hvd.Sum, prescale_factor=0.5, process_set=some), [k])
        rows = np.repeat(np.arange(1, n), np.arange(1, n))  # 1, 2, 2, 3, 3, 3
        close(hvd.allgather(torch.full((me,), me), process_set=some), rows)
        kept = 2 if place == 0 else 1  # of k + 1 rows
        scattered = hvd.reducescatter(torch.full((k + 1, 2), float(me)), op=hvd.Sum, process_set=some)
        close(scattered, np.full((kept, 2), n * k / 2))
        dealt, received = hvd.alltoall(torch.full((me * k,), me), splits=[me] * k, process_set=some)
        close(dealt, rows)
        assert received.tolist() == list(range(1, n))
        close(hvd.broadcast(mine, n - 1, process_set=some), [n - 1.0])
        raises(ValueError, lambda: hvd.broadcast(mine, 0, process_set=some), "is not one of")
    hvd.barrier()
    raises(ValueError, lambda: hvd.add_process_set(reversed(range(1, n))), "exists already")
    assert hvd.remove_process_set(some)


def check_process_sets_given_to_init_may_differ_in_order_but_not_repeat():
    n, me = hvd.size(), hvd.rank()
    hvd.barrier()
    hvd.shutdown()
    others = range(1, n) if me == 0 else reversed(range(1, n))
    twice = [hvd.ProcessSet([0]), hvd.ProcessSet(range(n)), hvd.ProcessSet([0])]
    raises(ValueError, lambda: hvd.init(process_sets=twice), "given twice")
    assert not hvd.is_initialized()
    sets = [hvd.ProcessSet([0]), hvd.ProcessSet(others), hvd.ProcessSet(reversed(range(n)))]
    hvd.init(process_sets=sets)
    assert [one.process_set_id for one in sets] == [1, 2, None]  # the last is the global one
    close(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=sets[min(me, 1)]), [1 if me == 0 else n - 1])
    hvd.barrier()
    assert hvd.remove_process_set(sets[1]) and hvd.remove_process_set(sets[0])


def check_a_rank_that_joined_counts_in_averages_of_all_but_brings_zeros():
    n, me = hvd.size(), hvd.rank()
    if me != 1:
        close(hvd.allreduce(torch.full((2,), 6.0)), np.full(2, 6.0 * (n - 1) / n), 1e-6)
        whole = torch.tensor([6, -7])  # 6 and -7, 12 and -14, 18 and -21, over n
        close(hvd.allreduce(whole), np.trunc(np.array([6, -7]) * (n - 1) / n))
        scaled = hvd.allreduce(torch.full((2,), 6.0), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
        close(scaled, np.full(2, 9.0 * (n - 1)))
    assert hvd.join() in range(n)


def check_joined_ranks_take_part_with_zeros():
    n, me = hvd.size(), hvd.rank()
    for _ in range(2):
        for step in range(me):  # rank r has r batches
            working = n - 1 - step
            close(hvd.allreduce(torch.ones(2), op=hvd.Sum), np.full(2, working))
            close(hvd.allreduce(torch.ones(2)), np.full(2, working / n), 1e-6)
        if me == n - 1 and n > 2:
            raises(hvd.HorovodInternalError, lambda: hvd.allgather(torch.ones(2)), "joined")
        assert hvd.join() in range(n)
        close(hvd.allreduce(torch.ones(2), op=hvd.Sum), np.full(2, n))


def check_join_names_the_last_rank():
    if hvd.rank() == 1:
        hvd.allreduce(torch.ones(1), name="only rank 1 still has data")
    lasts = hvd.allgather_object(hvd.join())
    assert len(set(lasts)) == 1, lasts


def check_objects():
    n, me = hvd.size(), hvd.rank()
    assert hvd.broadcast_object({"rank": me, "text": "x" * 1000}, root_rank=1)["rank"] == 1
    assert hvd.broadcast_object(None if me else [1, 2], name="a") == [1, 2]
    assert hvd.allgather_object(("rank", me, "y" * me)) == [("rank", r, "y" * r) for r in range(n)]


def check_parameters_and_optimizer_state_follow_the_root():
    torch.manual_seed(hvd.rank())
    for kind, options in (
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.SGD, {}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.AdamW, {}),
        (torch.optim.RMSprop, {}),
        (torch.optim.Adagrad, {}),
    ):
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        optimizer = kind(net.parameters(), lr=0.1 * (hvd.rank() + 1), **options)
        if hvd.rank() == 0:
            net(torch.randn(5, 3)).sum().backward()
            optimizer.step()
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        flat = torch.cat([t.double().flatten() for t in net.state_dict().values()])
        state = optimizer.state_dict()
        assert state["param_groups"][0]["lr"] == 0.1
        moments = [float(v.sum()) for s in state["state"].values() for v in s.values() if torch.is_tensor(v)]
        seen = hvd.allgather_object((flat.tolist(), moments, len(state["state"])))
        assert all(one == seen[0] for one in seen)
    hvd.broadcast_parameters(list(net.named_parameters()), root_rank=1)
    raises(ValueError, lambda: hvd.broadcast_parameters("weights", root_rank=0))
    lbfgs = torch.optim.LBFGS(net.parameters())
    raises(ValueError, lambda: hvd.broadcast_optimizer_state(lbfgs, root_rank=0))


def check_sync_batch_norm_is_batch_norm_of_the_whole_batch():
    n, me = hvd.size(), hvd.rank()
    whole = torch.tensor(np.random.default_rng(3).standard_normal((n * (n + 1) // 2 + n, 4, 5)))
    weights = torch.tensor(np.random.default_rng(4).standard_normal(whole.shape))
    begin = sum(r + 2 for r in range(me))
    rows = slice(begin, begin + me + 2)
    torch.manual_seed(0)
    sync, plain = hvd.SyncBatchNorm(4).double(), torch.nn.BatchNorm1d(4).double()
    for module in (sync, plain):
        torch.nn.init.normal_(module.weight, generator=torch.Generator().manual_seed(1))
    x, y = whole[rows].clone().requires_grad_(), whole.clone().requires_grad_()
    out, expected = sync(x), plain(y)
    (out * weights[rows]).sum().backward()
    (expected * weights).sum().backward()
    close(out, expected[rows].detach().numpy(), 1e-9)
    close(x.grad, y.grad[rows].numpy(), 1e-9)
    close(sync.running_mean, plain.running_mean.numpy(), 1e-9)
    close(sync.running_var, plain.running_var.numpy(), 1e-9)
    close(hvd.allreduce(sync.weight.grad, op=hvd.Sum), plain.weight.grad.numpy(), 1e-9)
    sync.eval(), plain.eval()
    close(sync(whole), plain(whole).detach().numpy(), 1e-12)


def check_init_again_after_shutdown():
    hvd.init()
    assert hvd.size() == int(os.environ["WORLD_SIZE"])
    hvd.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
    raises(ValueError, hvd.rank, "hvd.init()")
    hvd.init()
    close(hvd.allreduce(torch.ones(2), op=hvd.Sum), np.full(2, hvd.size()))


def check_init_waits_for_everybody_so_that_a_fast_rank_may_leave_at_once():
    for _ in range(5):
        hvd.shutdown()
        hvd.init()
    close(hvd.allreduce(torch.ones(2), op=hvd.Sum), np.full(2, hvd.size()))


def check_a_commit_leaves_the_dealing_of_this_epoch_and_a_sync_shares_what_was_processed():
    sampler = hvd.elastic.ElasticSampler(range(8 * hvd.size()), shuffle=True)
    state = hvd.elastic.TorchState(sampler=sampler, epoch=0)
    dealt = list(sampler)
    sampler.record_batch(0, 2)
    state.commit()
    hvd.barrier()
    assert not commit_file().exists()  # without restarts nobody would read it
    os.environ["TORCHELASTIC_MAX_RESTARTS"] = "1"
    state.commit()
    os.environ.pop("TORCHELASTIC_MAX_RESTARTS")
    if hvd.rank() == 0:
        commit_file().unlink()  # it was written, and is not left behind
    sampler.record_batch(1, 2)
    assert (sampler.processed_num, list(sampler)) == (4, dealt)
    state.restore()
    assert (sampler.processed_indices, list(sampler)) == (set(dealt[:2]), dealt)
    state.sync()
    assert (sampler.processed_num, len(sampler)) == (2 * hvd.size(), 6)
    both = hvd.allgather_object(sorted(sampler))
    assert sorted(sum(both, sorted(sampler.processed_indices))) == list(range(8 * hvd.size()))


def main(folder):
    hvd.init()
    results = {}
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                results[name] = ""
            except Exception:
                results[name] = traceback.format_exc()
    Path(folder, f"rank-{hvd.rank()}.json").write_text(json.dumps(results))
    hvd.barrier()
    hvd.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
