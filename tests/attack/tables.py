"""Tables as people make them and as nobody would: mostly sound numbers, now and then one that means harm."""

from tests.attack.chance import hostile

_COUNTED = (
    "workers",
    "gpus",
    "nodes",
    "global_batch",
    "per_worker_batch",
    "batch",
    "samples",
    "epochs",
    "steps",
)
_TIMED = (
    "step_s",
    "step_ms",
    "epoch_s",
    "job_s",
    "time",
    "throughput",
    "images/s",
    "compute_s",
    "exchange_s",
)
_OTHER = (
    "accuracy",
    "loss",
    "lr",
    "model",
    "backend",
    "gpu",
    "state",
    "seed",
    "gradient_bytes",
    "parameters",
    "x",
)
_CELLS = (
    *(
        "",
        "-",
        "nan",
        "inf",
        "-1",
        "0",
        "1e-308",
        "3.9e297",
        "1e999",
        "5e-324",
        "9" * 400,
        "9" * 5000,
        "0x10",
    ),
    *(
        "1e-12",
        "1e18",
        "5:19",
        "01:38:30",
        "83 ms",
        "44.7 MB",
        "98.5 %",
        "1,234",
        "1 500",
        "½",
        "٣",
        "٣.5",
        "1_000",
    ),
    *(
        "oom",
        "crashed",
        "failed",
        "[" * 3000,
        "=1+1",
        "|",
        "#",
        '"',
        '"""',
        "1e",
        "+",
        "NaN%",
        "1 h 1",
        "2x A100",
    ),
)


def table(rng):
    """The text of a table; half of them hold nothing hostile."""
    names = [rng.choice(("workers", "gpus")), *rng.sample(_COUNTED[2:], rng.randint(0, 2))]
    names += [*rng.sample(_TIMED, rng.randint(1, 2)), *rng.sample(_OTHER, rng.randint(0, 2))]
    wild = rng.random() < 0.5
    separator = rng.choice((",", ",", ";", "\t", " | ", "  "))
    rows = [_row(rng, names, wild=wild) for _ in range(rng.choice((1, 2, 3, 4, 5, 8, 12)))]
    lines = [separator.join(cells) for cells in ([_heading(rng, name, wild=wild) for name in names], *rows)]
    return rng.choice(("\n", "\r\n")).join(lines) + "\n"


def _heading(rng, name, *, wild):
    return hostile(rng) if wild and rng.random() < 0.05 else name


def _row(rng, names, *, wild):
    cells = [_cell(rng, name) for name in names]
    if wild and rng.random() < 0.3:
        cells[rng.randrange(len(cells))] = rng.choice(_CELLS) if rng.random() < 0.8 else hostile(rng)
    if wild and rng.random() < 0.05:
        cells.insert(rng.randrange(len(cells) + 1), "7")
    return cells


def _cell(rng, name):
    if name in ("workers", "gpus"):
        return str(rng.choice((1, 2, 3, 4, 6, 8, 16, 64, 100, 101, 127, 128, 1000, 1001, 1_000_000)))
    if name == "nodes":
        return "1"
    if name in _COUNTED:
        return str(rng.choice((1, 8, 32, 64, 1024, 60_000)))
    if name in _TIMED:
        return f"{rng.lognormvariate(0, rng.choice((0.1, 1, 4))):.6g}"
    return {"accuracy": "0.97", "loss": "0.1", "lr": "0.1", "state": "ok", "gradient_bytes": "44.7 MB"}.get(
        name, rng.choice(("1", "2"))
    )
