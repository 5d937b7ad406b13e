"""Analyses for the tests of the report: one that has everything, with figures a person can check, and a hostile one."""

from dataclasses import replace

from paceline.records import (
    AccuracyCurve,
    Analysis,
    BucketReady,
    BucketSent,
    Comparison,
    Convergence,
    Course,
    Decision,
    DeviceProbe,
    DeviceRate,
    Estimate,
    Failure,
    Finding,
    Fit,
    FittedLine,
    LinkProbe,
    Option,
    Point,
    ProbeRow,
    Profile,
    Projection,
    Reason,
    Recommendation,
    Refusal,
    Threshold,
    Verdict,
)

HOSTILE = "<script>alert(1)</script>]]>\\input{/etc/passwd}|`x`=cmd()\x1b[31m</style>"


def told(text):
    """A verdict that says just this."""
    return Verdict("use", reasons=(Reason("told", text),))


def around(value, ratio=0.05, n=5):
    return Estimate(value, value * (1 - ratio), value * (1 + ratio), n)


def measured(workers, efficiency, *, scaling="weak", batch=64, nodes=1, backend=None):
    """A point whose step is 40 ms of compute on one worker; 70 % of what it loses is wire, 30 % straggle."""
    per_worker = batch if scaling == "weak" else batch // workers
    compute_s = 0.040 if scaling == "weak" else 0.040 / workers
    step_s = compute_s / efficiency
    one = Estimate(1.0, 1.0, 1.0, 5)
    return Profile(
        Point(
            f"w{workers}-{'b' if scaling == 'weak' else 'g'}{batch}",
            workers,
            nodes=nodes,
            per_worker_batch=per_worker,
            global_batch=per_worker * workers,
            scaling=scaling,
            backend=backend,
        ),
        "ok",
        None,
        trials=5,
        step_s=around(step_s),
        compute_s=around(compute_s),
        exposed_s=around(step_s - compute_s),
        wire_s=around(0.7 * (step_s - compute_s)),
        straggle_s=around(0.3 * (step_s - compute_s)),
        hidden_s=around(0.003 if workers > 1 else 0.0),
        input_s=around(0.001),
        optimizer_s=around(0.0005),
        throughput_per_s=around(per_worker * workers / step_s),
        speedup=one if workers == 1 else around(efficiency * workers),
        efficiency_ratio=one if workers == 1 else around(efficiency),
        exchanged_bytes_per_step=Estimate(44.7e6 if workers > 1 else 0.0, n=5),
        bus_bytes_per_s=around(1.2e9 if workers < 4 else 1.1e9) if workers > 1 else None,
        peak_memory_bytes=around(1.9e9 + 2e7 * workers),
        overhead_s=around(1e-4),
        buckets=(BucketReady(25_000_000, 0.021), BucketReady(19_700_000, 0.033)) if workers > 1 else (),
        backward_end_s=0.0345 if workers > 1 else None,
        own_s_by_worker=tuple(compute_s * (1 + 0.01 * i) for i in range(workers)),
        timeline=(
            BucketSent(25_000_000, 0.021, 0.021, 0.028, False),
            BucketSent(19_700_000, 0.033, 0.033, 0.0385, True),
        )
        if workers > 1
        else (),
        cpu_ratio=around(0.9 if workers < 4 else 0.8),
    )


def projected(workers, efficiency):
    speedup = around(efficiency * workers, 0.2, 4)
    return Projection(
        workers,
        workers // 8,
        64,
        around(0.040 / efficiency, 0.2, 4),
        "step",
        around(0.040 / efficiency, 0.2, 4),
        around(64 * efficiency * workers / 0.040, 0.2, 4),
        speedup,
        around(efficiency, 0.2, 4),
        None,
        "70% computing, 20% exchange not hidden: the rate of the links between nodes binds",
        "weak",
        "w1-b64",
    )


def fitted(method, efficiency):
    """A line whose efficiency falls by so much at every doubling."""
    counts = (1, 2, 4, 8, 16, 32)
    ratios = tuple(efficiency**k for k in range(len(counts)))
    return FittedLine(
        "w1-b64", method, counts, tuple(n * r for n, r in zip(counts, ratios, strict=True)), ratios
    )


def curve(point, seed, rate, *, state="ok", epochs=12):
    """Accuracy 0.95 − 0.6 · rate^epoch: 90 % is the target."""
    values = tuple(0.95 - 0.6 * rate**epoch + 0.004 * seed for epoch in range(1, epochs + 1))
    reached = next((epoch for epoch, value in enumerate(values, 1) if value >= 0.9), None)
    return AccuracyCurve(
        point, f"{point}-{seed}", seed, state, tuple(float(e) for e in range(1, epochs + 1)),
        tuple(10.0 * e for e in range(1, epochs + 1)), values, reached, None if reached is None else 10.0 * reached,
    )  # fmt: skip


def configuration(point, workers, traits, rule, reached, time_s, epochs):
    return Comparison(
        point, workers, 64, 64 * workers, rule, 0.0, traits, 3, reached, 3 - reached, 0, time_s, epochs, None,
        around(0.94, 0.01, 3), around(9.0, 0.1, 3), False, 12.0, Estimate(-0.004, -0.01, 0.002, 3), "survives",
        around(500.0, 0.2, 3),
    )  # fmt: skip


CONVERGENCE = Convergence(
    around(18.0), False, Estimate(500.0), around(1024.0), "val_accuracy", True, 0.9, 12,
    tuple(
        curve(point, seed, rate)
        for point, rate in (("w1-b64", 0.7), ("w4-b64", 0.78), ("w8-b64", 0.8))
        for seed in range(3)
    ),
    (
        configuration("w1-b64", 1, ("1 worker",), None, 3, around(70.0, 0.1, 3), around(7.0, 0.1, 3)),
        configuration("w4-b64", 4, ("4 workers", "sqrt"), "sqrt", 3, around(90.0, 0.1, 3), around(9.0, 0.1, 3)),
        configuration("w8-b64", 8, ("8 workers", "linear"), "linear", 2, Estimate(120.0, 110.0, None, 3), None),
    ),
)  # fmt: skip


def probed(link, backend, workers, rate, spec):
    """A ring of so many workers whose bus bandwidth saturates at `rate`, 20 µs per message before that."""
    sizes = [4**k * 1024 for k in range(9)]
    rows = tuple(
        ProbeRow(
            "all_reduce", workers, 1, size, around(2e-5 + size / rate), around(size / (2e-5 + size / rate))
        )
        for size in sizes
    )
    return LinkProbe(
        link, backend, workers, 1, around(2e-5), around(rate), spec="100 Gbit/s" if spec else None,
        spec_bytes_per_s=spec, source="paceline probe", rows=rows,
    )  # fmt: skip


LINKS = (probed("inside", "gloo", 4, 2e9, None), probed("between", "nccl", 8, 9e9, 12.5e9))
DEVICES = (
    DeviceProbe(0, "cuda", "T4", (DeviceRate("float32", around(7e12), 8.1e12),), "dense"),
    DeviceProbe(1, "cpu", "EPYC", (DeviceRate("copy", around(9e9)),)),
)


def option(workers, hours, *, measured, pareto=True, marginal=None):
    """An option at 2 EUR per worker-hour, 8 workers to a node."""
    nodes = -(-workers // 8)
    time_s, worker_s = around(3600 * hours), around(3600 * hours * workers)
    return Option(
        workers, nodes, 64, measured, time_s, around(2 * hours * workers), worker_s, around(3600 * hours * nodes),
        pareto, marginal, hours <= 3, 2 * hours * workers <= 30,
    )  # fmt: skip


DECISION = Decision(
    "one training", "EUR", True,
    (
        option(1, 12.0, measured=True), option(2, 6.6, measured=True, marginal=0.44),
        option(4, 3.8, measured=True, marginal=1.4), option(8, 1.9, measured=True, marginal=0.0),
        option(16, 1.1, measured=False, marginal=6.0), option(32, 1.2, measured=False, pareto=False),
    ),
    10800.0, 30.0, 8,
)  # fmt: skip


WEAK = tuple(measured(n, e) for n, e in ((1, 1.0), (2, 0.9), (4, 0.8), (8, 0.8)))
STRONG = tuple(measured(n, e, scaling="strong", batch=256) for n, e in ((1, 1.0), (2, 0.8), (4, 0.5)))
OOM = Profile(
    Point("w1-b1024", 1, per_worker_batch=1024, global_batch=1024),
    "oom",
    "worker 0 ran out of memory at step 3",
    trials=1,
)

FULL = Analysis(
    verdict=Verdict(
        "use",
        8,
        1,
        8,
        around(6.4),
        around(0.8),
        "weak",
        points=tuple(p.point.id for p in WEAK),
        reasons=(Reason("network", "14% of each step is communication over the network."),),
    ),
    points=(*WEAK, *STRONG, OOM),
    findings=(
        Finding(
            "few-launches", "doubt", "only 2 runs", 2.0, 3.0, "paceline study STUDY --repeats 5", "w1-b64"
        ),
        Finding(
            "wire-bound", "note", "14% of each step is waiting for the network", 0.14, 0.15, None, "w8-b64"
        ),
    ),
    baseline="w1-b64",
    source={
        "command": "train.py --batch-size 64",
        "git": ["1f2e3d4c, with changes that are not committed"],
        "host": "node17",
        "workers": {"torch": ["2.13.0"], "device": ["cuda"]},
        "problem": {
            "parameters": ["11175370"],
            "gradient_precision": ["32 bit"],
            "samples_in_data_set": ["50000"],
        },
        "trials": 40,
        "measured_steps": 20,
        "warmup_steps": 10,
    },
    fit=Fit(
        {"compute_alone_s": around(0.04), "overlap_ratio": Estimate(0.6, 0.2, 0.9, 4)},
        ("overlap_ratio",),
        {"paceline": 0.04, "amdahl": 0.21, "usl": None},
        "8 settings, 4 models",
        (fitted("paceline", 0.93), fitted("amdahl", 0.9), fitted("usl", 0.88)),
    ),
    projections=(projected(16, 0.7), projected(32, 0.6)),
    refusals=(
        Refusal(128, "horizon", "128 workers lie beyond the horizon", "measure 16 workers on 2 nodes"),
    ),
    recommendations=(
        Recommendation(
            "fastest", 16, 64, "linear", around(1.75), None, "if the links are as declared", "use 16 workers"
        ),
    ),
    convergence=CONVERGENCE,
    thresholds=(
        Threshold("gain-per-doubling", "1 → 2 workers: throughput gains 1.80x per doubling", 1.8, 1.5, True),
        Threshold("launches", "only 2 runs per setting (3 needed; fewest: w1-b64)", 2.0, 3.0, False),
    ),
    failures=(
        Failure(
            "w1-b1024-1",
            1,
            "oom",
            "worker 0 ran out of memory at step 3",
            12.5,
            "Traceback\nOutOfMemoryError: 2 GiB",
        ),
    ),
    decision=DECISION,
    links=LINKS,
    devices=DEVICES,
    courses=tuple(
        Course(
            "w2-b64",
            "w2-b64-1",
            i,
            (1.0, 2.0, 3.0),
            (0.5, 1.0, 0.9 + 0.1 * i),
            (10**9,) * 3,
            (None, 0.4, 0.9),
        )
        for i in range(2)
    ),
)


def hostile():
    """Every text that comes from outside is an attack."""
    points = [
        replace(
            p,
            point=replace(
                p.point, id=f"{p.point.id}{HOSTILE}", backend=HOSTILE, varied=((HOSTILE, HOSTILE),)
            ),
        )
        for p in (*WEAK, OOM)
    ]
    points[-1] = replace(points[-1], reason=HOSTILE)
    return replace(
        FULL,
        verdict=Verdict("no_answer", series=HOSTILE, reasons=(Reason(HOSTILE, HOSTILE),)),
        points=tuple(points),
        baseline=HOSTILE,
        findings=(Finding(HOSTILE, "doubt", HOSTILE, 1.0, 2.0, HOSTILE),),
        source={
            "command": HOSTILE,
            HOSTILE: [HOSTILE],
            "git": [HOSTILE],
            "started": HOSTILE,
            "trials": HOSTILE,
            "workers": {"device_name": [HOSTILE]},
            "problem": {"optimizer": [HOSTILE], "parameters": [HOSTILE]},
        },
        fit=Fit(
            {HOSTILE: around(1.0)},
            (HOSTILE,),
            {HOSTILE: 0.1},
            HOSTILE,
            (replace(fitted(HOSTILE, 0.9), baseline=points[0].point.id),),
        ),
        decision=replace(DECISION, work=HOSTILE, cost_unit=HOSTILE),
        convergence=replace(
            CONVERGENCE,
            metric=HOSTILE,
            curves=tuple(replace(c, point=HOSTILE, trial=HOSTILE) for c in CONVERGENCE.curves[:2]),
            comparisons=(
                replace(CONVERGENCE.comparisons[0], point=HOSTILE, traits=(HOSTILE,), lr_rule=HOSTILE),
            ),
        ),
        courses=tuple(replace(course, point=HOSTILE, trial=HOSTILE) for course in FULL.courses),
        links=tuple(replace(link, backend=HOSTILE, spec=HOSTILE, source=HOSTILE) for link in LINKS),
        devices=(replace(DEVICES[0], name=HOSTILE, spec=HOSTILE, rates=(DeviceRate(HOSTILE, around(1e9)),)),),
        projections=tuple(replace(p, explanation=HOSTILE) for p in FULL.projections),
        refusals=(Refusal(128, HOSTILE, HOSTILE, HOSTILE),),
        recommendations=(Recommendation(HOSTILE, 16, 64, HOSTILE, None, None, HOSTILE, HOSTILE),),
        thresholds=(Threshold(HOSTILE, HOSTILE, 1.0, 2.0, False),),
        failures=(Failure(HOSTILE, 1, "oom", HOSTILE, 1.0, HOSTILE),),
    )


def large(points):
    """A study of many points: lines of 1, 2, 4, … 128 workers at different batches."""
    counts = [2**k for k in range(8)]
    found = [measured(n, 0.97**k, batch=2**i) for i in range(points // 8) for k, n in enumerate(counts)]
    return replace(FULL, points=tuple(found), projections=(), refusals=())
