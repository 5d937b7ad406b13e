"""DistributedOptimizer on two and three ranks: against plain DDP, its checks and its warnings; and random programs.

python horovod_optimizer.py FOLDER     writes FOLDER/rank-R.json: {check: "" or what went wrong}
"""

import copy
import itertools
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

import paceline_horovod.torch as hvd
from paceline_horovod.torch.buckets import cut

LAYERS = (12, 30, 20, 5)


def network(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    layers = []
    for before, after in itertools.pairwise(LAYERS):
        layers += [torch.nn.Linear(before, after), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1]).to(dtype)


def batches(count, rank=None):
    generator = torch.Generator().manual_seed(100 + (hvd.rank() if rank is None else rank))
    return [torch.randn(8, LAYERS[0], generator=generator) for _ in range(count)]


def distance(one, two):
    return max((p - q).abs().max().item() for p, q in zip(one.parameters(), two.parameters(), strict=False))


def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), str(error)
        return
    raise AssertionError(f"{words} did not raise")


def check_training_equals_ddp_for_every_optimizer_and_bucket_size():
    for threshold in (None, 0, 1500, 1 << 26):
        os.environ.pop("HOROVOD_FUSION_THRESHOLD", None)
        if threshold is not None:
            os.environ["HOROVOD_FUSION_THRESHOLD"] = str(threshold)
        for kind, options in (
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}),
            (torch.optim.Adam, {"lr": 0.01}),
        ):
            own, plain = network(), DistributedDataParallel(network())
            optimizer = hvd.DistributedOptimizer(kind(own.parameters(), **options), own.named_parameters())
            plain_optimizer = kind(plain.parameters(), **options)
            assert isinstance(optimizer, kind)
            for batch in batches(10):
                for net, opt in ((own, optimizer), (plain, plain_optimizer)):
                    opt.zero_grad()
                    net(batch).square().mean().backward()
                    opt.step()
            assert distance(own, plain.module) <= 1e-6, distance(own, plain.module)
    os.environ.pop("HOROVOD_FUSION_THRESHOLD")


def check_gradients_leave_during_backward():
    own = network()
    os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), lr=0.1), own.named_parameters())
    os.environ.pop("HOROVOD_FUSION_THRESHOLD")
    seen = []
    first = next(own.parameters())
    first.register_hook(lambda gradient: seen.append(optimizer._buckets[0].in_flight()))
    own(batches(1)[0]).sum().backward()
    optimizer.step()
    assert seen == [True]  # the last layer was on its way before the first layer's gradient existed


def check_passes_add_up_before_the_exchange():
    own, whole = network(), network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(own.parameters(), lr=0.1), own.named_parameters(), backward_passes_per_step=3
    )
    for batch in batches(3):
        (own(batch).square().mean() / 3).backward()
    optimizer.step()
    total = 0
    for rank in range(hvd.size()):
        for batch in batches(3, rank):
            total = total + whole(batch).square().mean() / 3 / hvd.size()
    total.backward()
    torch.optim.SGD(whole.parameters(), lr=0.1).step()
    assert distance(own, whole) <= 1e-6
    for batch in batches(3):
        own(batch).sum().backward()
    raises(AssertionError, lambda: own(batches(1)[0]).sum().backward(), "backward_passes_per_step")
    optimizer.step()
    optimizer.set_backward_passes_per_step(1)
    own(batches(1)[0]).sum().backward()
    optimizer.step()


def check_sum_predivision_and_compression():
    for options, tolerance in (
        ({"op": hvd.Sum}, 1e-5),
        ({"gradient_predivide_factor": 2.0}, 1e-6),
        ({"compression": hvd.Compression.fp16}, 1e-3),
        ({"groups": 2}, 1e-6),
        ({"process_set": hvd.global_process_set}, 1e-6),
    ):
        own, reference = network(), network()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(own.parameters(), lr=0.1), own.named_parameters(), **options
        )
        own(batches(1)[0]).square().mean().backward()
        optimizer.synchronize()
        for rank in range(hvd.size()):
            share = 1.0 if options.get("op") == hvd.Sum else 1 / hvd.size()
            (reference(batches(1, rank)[0]).square().mean() * share).backward()
        for p, q in zip(own.parameters(), reference.parameters(), strict=False):
            assert (p.grad - q.grad).abs().max() <= tolerance, options
        with optimizer.skip_synchronize():
            optimizer.step()


def check_groups_of_parameters_travel_together():
    own = network()
    parameters = list(own.parameters())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(own.parameters(), lr=0.1),
        own.named_parameters(),
        groups=[parameters[:2], parameters[2:3]],
    )
    assert [len(bucket.parameters) for bucket in optimizer._buckets[0]._buckets] == [2, 1, 3]
    own(batches(1)[0]).sum().backward()
    optimizer.step()
    assert [len(part) for part in cut(parameters, most_bytes=0)] == [1] * 6
    assert [len(part) for part in cut(parameters, most_bytes=1 << 30)] == [6]


def check_a_parameter_without_gradient_on_one_rank_is_reduced_with_zeros():
    torch.manual_seed(0)
    left, right = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    both = [*left.parameters(), *right.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(both, lr=0.1))
    branch = left if hvd.rank() == 0 else right
    branch(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    n = hvd.size()  # each branch has 2 rows of ones: the left one on rank 0, the right one on all others
    assert torch.allclose(left.weight.grad, torch.full((1, 3), 2 / n))
    assert torch.allclose(right.weight.grad, torch.full((1, 3), 2 * (n - 1) / n))


def check_sparse_gradients_stay_sparse_and_average():
    for as_dense in (False, True):
        torch.manual_seed(0)
        embedding, dense = torch.nn.Embedding(20, 4, sparse=True), torch.nn.Linear(4, 1)
        parameters = [*embedding.parameters(), *dense.parameters()]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1), sparse_as_dense=as_dense)
        for step in range(3):
            optimizer.zero_grad()
            rows = torch.tensor([hvd.rank(), 5, step])
            dense(embedding(rows)).sum().backward()
            optimizer.synchronize()
            assert embedding.weight.grad.is_sparse
            gradient = embedding.weight.grad.to_dense()
            expected = torch.zeros(20, 4)
            for rank in range(hvd.size()):
                for row in (rank, 5, step):
                    expected[row] += dense.weight[0].detach() / hvd.size()
            assert torch.allclose(gradient, expected, atol=1e-6)
            with optimizer.skip_synchronize():
                optimizer.step()


def check_an_optimizer_for_sparse_gradients_gets_them_whatever_travels():
    for as_dense in (False, True):
        embedding = torch.nn.Embedding(20, 4, sparse=True)
        before = embedding.weight.detach().clone()
        sparse_adam = torch.optim.SparseAdam(list(embedding.parameters()), lr=0.1)
        optimizer = hvd.DistributedOptimizer(sparse_adam, sparse_as_dense=as_dense)
        embedding(torch.tensor([hvd.rank()])).sum().backward()
        optimizer.step()
        moved = (embedding.weight.detach() - before).abs().sum(1).nonzero().flatten().tolist()
        assert moved == list(range(hvd.size())), moved


def check_gradients_are_zeros_before_the_first_backward():
    frozen, trained = torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 2)
    named = [(f"{i}.{n}", p) for i, m in enumerate((frozen, trained)) for n, p in m.named_parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=0.1), named)
    assert all(p.grad is None for p in frozen.parameters())
    assert all(not p.grad.any() for p in trained.parameters())
    assert optimizer._parameter_names == {parameter: name for name, parameter in named}


def check_adasum_steps_are_combined():
    own = network(dtype=torch.float64)
    before = [p.detach().clone() for p in own.parameters()]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(own.parameters(), lr=0.1), own.named_parameters(), op=hvd.Adasum
    )
    own(batches(1)[0].double()).square().mean().backward()
    gradients = [p.grad.clone() for p in own.parameters()]
    if hvd.size() & (hvd.size() - 1):
        raises(NotImplementedError, optimizer.step, f"{hvd.size()} ranks are not a power of two")
        return
    optimizer.step()
    for p, start, gradient in zip(own.parameters(), before, gradients, strict=False):
        combined = hvd.allreduce(-0.1 * gradient, op=hvd.Adasum)
        assert torch.allclose(p, start + combined, atol=1e-12)


def check_parameters_added_or_unfrozen_later_are_reduced_and_frozen_ones_left_alone():
    own, head = network(), torch.nn.Linear(LAYERS[-1], 1)
    hvd.broadcast_parameters(head.state_dict(), root_rank=0)
    own[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), lr=0.1, weight_decay=0.1))

    def step(batch):
        optimizer.zero_grad()
        head(own(batch)).square().mean().backward()
        optimizer.step()

    first, second, third = batches(3)
    kept = own[0].weight.clone()
    step(first)
    assert torch.equal(own[0].weight, kept)
    head.zero_grad()
    optimizer.add_param_group({"params": head.parameters()})
    own[0].requires_grad_(True)
    own[2].requires_grad_(False)
    frozen = own[2].weight.clone()
    step(second)
    step(third)
    assert torch.equal(own[2].weight, frozen) and not torch.equal(own[0].weight, kept)
    seen = hvd.allgather_object([p.detach().clone() for p in [*own.parameters(), *head.parameters()]])
    assert all(torch.equal(p, q) for p, q in zip(seen[0], seen[-1], strict=True))


def check_wrong_arguments_are_refused():
    own = network()
    plain = torch.optim.SGD(own.parameters(), lr=0.1)
    named = list(own.named_parameters())
    wrap = hvd.DistributedOptimizer
    raises(ValueError, lambda: wrap(plain, named_parameters=own.parameters()), "tuples")
    raises(ValueError, lambda: wrap(plain, named_parameters=named[:-1]), "not named")
    raises(ValueError, lambda: wrap(plain, named_parameters=[*named, named[0]]), "unique")
    raises(ValueError, lambda: wrap(plain, named, backward_passes_per_step=0), "> 0")
    raises(ValueError, lambda: wrap(plain, named, op=hvd.Sum, gradient_predivide_factor=2.0), "average")
    raises(ValueError, lambda: wrap(plain, named, groups="two"), "groups")


def check_the_order_of_calls_is_watched():
    own = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), lr=0.1), own.named_parameters())
    own(batches(1)[0]).sum().backward()
    raises(AssertionError, optimizer.zero_grad, "zero_grad")
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(w.message) for w in caught)
    optimizer.zero_grad()


def check_schedulers_checkpoints_and_closures_work():
    own = network()
    plain = torch.optim.SGD(own.parameters(), lr=1.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, step_size=1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(plain, own.named_parameters())
    after = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100)

    def closure():
        optimizer.zero_grad()
        loss = own(batches(1)[0]).square().mean()
        loss.backward()
        return loss

    assert optimizer.step(closure) > 0
    scheduler.step(), after.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
    saved = copy.deepcopy(optimizer.state_dict())
    other = network()
    restored = hvd.DistributedOptimizer(
        torch.optim.SGD(other.parameters(), lr=9.0, momentum=0.9), other.named_parameters()
    )
    restored.load_state_dict(saved)
    assert restored.param_groups[0]["lr"] == 0.5 and len(restored.state) == 6
    weights = hvd.allgather_object([p.detach().clone() for p in own.parameters()])
    assert all(torch.equal(p, q) for theirs in weights for p, q in zip(theirs, weights[0], strict=False))


def check_joined_ranks_let_the_others_train_on():
    own = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), lr=0.1), own.named_parameters())
    for batch in batches(2 + hvd.rank()):
        optimizer.zero_grad()
        own(batch).sum().backward()
        optimizer.step()
    assert hvd.join() == hvd.size() - 1
    hvd.broadcast_parameters(own.state_dict(), root_rank=hvd.size() - 1)


def check_a_network_that_differs_is_an_error_on_every_rank():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2 + hvd.rank())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters())
    net(torch.ones(1, 3)).sum().backward()
    raises(hvd.HorovodInternalError, optimizer.step, "mismatched shapes")


def answer(kind, held, me, options):
    stacked = np.stack([np.zeros(0)] if kind == "allgather" else held)
    if kind == "allreduce":
        by = {"Sum": stacked.sum(0), "Average": stacked.mean(0), "Max": stacked.max(0), "Min": stacked.min(0)}
        return by[options["op"]]
    if kind == "allgather":
        return np.concatenate(held)
    if kind == "broadcast":
        return stacked[options["root"]]
    return np.array_split(stacked.sum(0), len(held))[me]


def perform(call, tensor):
    kind, name = call["kind"], call["name"]
    if kind == "allreduce":
        return hvd.allreduce_async(tensor, name=name, op=getattr(hvd, call["op"]))
    if kind == "allgather":
        return hvd.allgather_async(tensor, name=name)
    if kind == "broadcast":
        return hvd.broadcast_async(tensor, call["root"], name=name)
    return hvd.reducescatter_async(tensor, name=name, op=hvd.Sum)


def check_random_programs_agree_with_numpy_on_all_ranks():
    """Each program: some calls, submitted and awaited by every rank in orders of its own."""
    for number, program in enumerate(json.loads(Path(sys.argv[1], "programs.json").read_text())):
        order = np.random.default_rng([hvd.rank(), number])
        held = {}
        for i, call in enumerate(program):
            seeds = [np.random.default_rng([number, i, rank]) for rank in range(hvd.size())]
            grow = 1 if call["kind"] == "allgather" else 0
            held[i] = [
                seed.integers(-4, 5, size=(call["rows"] + grow * rank, call["columns"])).astype(call["dtype"])
                for rank, seed in enumerate(seeds)
            ]
        handles = {}
        for i in order.permutation(len(program)):
            handles[i] = perform(program[i] | {"name": f"{number}.{i}"}, torch.tensor(held[i][hvd.rank()]))
        for i in order.permutation(len(program)):
            got = hvd.synchronize(handles[i]).numpy()
            call = program[i]
            expected = answer(call["kind"], held[i], hvd.rank(), call)
            if call.get("op") == "Average" and call["dtype"].startswith("int"):
                expected = np.trunc(expected)
            assert got.dtype == call["dtype"] and got.shape == expected.shape, (number, call)
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6, err_msg=f"{number} {call}")


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
