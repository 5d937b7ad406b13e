"""How well Paceline predicts what it has not seen: error and coverage, beside every simple curve.

    python benchmarks/prediction.py DATA [--out evidence/2026-11-15-prediction]

DATA is a folder with step_times_pollux_t4.csv, published_scaling_dev.csv, epochs_to_target_mlperf.csv and
accuracy_curves_pollux.csv: public measurements (the evidence folder says where they come from). Every case is a
table that goes through the same call as `paceline analyze TABLE --at POINTS`; refused points are counted.

    A  1, 2 workers of a node                       -> 3, 4
    B  1, 2, 4 of a node and 2 nodes with 1 each     -> 3..16 nodes
    C  up to 4 nodes                                -> 6..16 nodes, up to 64 workers
    D  1 worker, gradient bytes, link specification -> everything else
    L  published throughputs of 1, 2 (and 4) GPUs   -> the rest up to 8
    E  epochs to target at the smaller batches      -> the largest batch
    F  epochs and noise scale of the smallest batch -> epochs to equal progress at every larger batch
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline.analysis.cluster import cluster_from
from paceline.analysis.question import Ask, Cluster
from paceline.analysis.table import table_analysis
from paceline.converge.epochs import fit_epochs, noise_scale
from paceline.data import shipped
from paceline.predict.baselines import METHODS, baseline_times
from paceline.records import Setting
from paceline.table.read import read_table

Key = tuple[int, int, int]  # nodes, workers, per-worker batch

# 4 bytes × parameters: BERT base 110 M, ResNet-18 11.17 M (CIFAR), ResNet-50 25.6 M, YOLOv3 62 M; NeuMF and
# DeepSpeech2 are estimates (their configuration is not in the traces).
GRADIENT_BYTES = {
    "BERT (SQuAD fine-tune)": 438e6,
    "ResNet18": 44.7e6,
    "ResNet-50": 102.2e6,
    "YOLOv3": 248e6,
    "NeuMF (NCF)": 6.3e6,
    "DeepSpeech2": 165e6,
}


_KEYS = ("network", "points", "refused", "error", "coverage", "width")


@dataclass(frozen=True)
class Outcome:
    """One predicted point: the truth, the prediction, its interval, and what the simple curves said."""

    case: str
    workers: int
    truth: float
    value: float | None
    low: float | None
    high: float | None
    others: dict[str, float | None]
    loss: float  # log of the step over that of the fewest workers at this batch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="ABCDLEF")
    parser.add_argument(
        "--half", choices=("choose", "report"), help="every other network, in the order of their names"
    )
    args = parser.parse_args()
    steps = load_steps(args.data / "step_times_pollux_t4.csv")
    report: dict[str, object] = {}
    lines: list[str] = []
    for name in "ABCD":
        if name in args.only:
            cases = half(steps, args.half)
            lines += summary(name, [list(protocol(name, case, steps[case])) for case in cases], report)
    if "L" in args.only:
        for fitted, rest in (((1, 2), (4, 8)), ((1, 2, 4), (8,))):
            groups = published(args.data / "published_scaling_dev.csv", fitted, rest)
            chosen = [groups[network] for network in half(groups, args.half)]
            lines += summary(f"L {','.join(map(str, fitted))}", chosen, report)
    if "E" in args.only:
        lines += epochs(args.data / "epochs_to_target_mlperf.csv", report)
    if "F" in args.only:
        lines += noise(args.data / "accuracy_curves_pollux.csv", report)
    print("\n".join(lines))
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "results.txt").write_text("\n".join(lines) + "\n")
        (args.out / "results.json").write_text(json.dumps(report, indent=1) + "\n")


def half(networks: Iterable[str], which: str | None) -> list[str]:
    """All networks; or every other one, to choose by, and the others, to report."""
    ordered = sorted(networks)
    return list(networks) if which is None else ordered[0 if which == "choose" else 1 :: 2]


def load_steps(path: Path) -> dict[str, dict[Key, tuple[float, float]]]:
    """Median step and synchronisation time of every placement, by network."""
    cells: dict[str, dict[Key, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(path.open()):
        key = (int(row["n_nodes"]), int(row["n_gpus"]), int(row["per_gpu_batch"]))
        cells[row["model"]][key].append((float(row["step_time_s"]), float(row["sync_time_s"])))
    return {
        case: {key: tuple(np.median(np.array(values), axis=0)) for key, values in found.items()}
        for case, found in cells.items()
    }


def protocol(name: str, case: str, cells: dict[Key, tuple[float, float]]) -> Iterator[Outcome]:
    """Fit on one part of a network's cells, predict another."""
    chosen = {
        "A": (lambda m, n: m == 1 and n <= 2, lambda m, n: m == 1 and n in (3, 4)),
        "B": (lambda m, n: (m == 1 and n in (1, 2, 4)) or (m, n) == (2, 2), lambda m, n: m >= 3),
        "C": (lambda m, n: m <= 4, lambda m, n: m >= 6),
        "D": (lambda m, n: n == 1, lambda m, n: n > 1),
    }[name]
    seen = [key for key in cells if chosen[0](key[0], key[1])]
    batches = {key[2] for key in seen}
    wanted = [key for key in cells if chosen[1](key[0], key[1]) and key[2] in batches]
    cluster = None
    if name == "D":
        declared = {
            "inside": {"kind": "pcie3", "gbit_per_s": 63},
            "between": {"kind": "tcp", "gbit_per_s": 50},
        }
        cluster = cluster_from(
            {"cluster": {"workers_per_node": 4, "gradient_bytes": GRADIENT_BYTES[case]}, "links": declared},
            shipped("links"),
        )
    text = "workers,nodes,per_worker_batch,step_s,sync_s\n" + "".join(
        f"{n},{m},{b},{float(cells[m, n, b][0])!r},{float(cells[m, n, b][1])!r}\n"
        for m, n, b in map(tuple, seen)
    )
    yield from outcomes(case, text, [(n, m, b, cells[m, n, b][0]) for m, n, b in wanted], cluster)


def outcomes(
    case: str, text: str, wanted: Sequence[tuple[int, int, int, float]], cluster: Cluster | None = None
) -> Iterator[Outcome]:
    """What `analyze --at` says about the wanted points, beside the simple curves at the same batch."""
    table = read_table(text)
    ask = Ask(at=tuple((Setting(n, m, b), ()) for n, m, b, _ in wanted))
    found = {
        (p.workers, p.nodes, p.per_worker_batch): p
        for p in table_analysis(table, ask=ask, cluster=cluster).projections
    }
    for n, m, b, truth in wanted:
        same = [row for row in table.rows if row.per_worker_batch == b]
        counts = [float(row.workers) for row in same]
        work = [_step(row) / row.workers for row in same]
        others = {
            method: None if value is None else value[0] * n
            for method, value in baseline_times(counts, work, [float(n)]).items()
        }
        p = found.get((n, m, b))
        yield Outcome(
            case,
            n,
            truth,
            None if p is None else p.time_s.value,
            None if p is None else p.time_s.low,
            None if p is None else p.time_s.high,
            others,
            float(np.log(truth / (min(zip(counts, work, strict=True))[1] * min(counts)))),
        )


def _step(row: object) -> float:
    step, rate, batch = row.step_s, row.throughput_per_s, row.global_batch  # type: ignore[attr-defined]
    return float(step if step is not None else batch / rate)


def published(path: Path, fitted: Sequence[int], rest: Sequence[int]) -> dict[str, list[Outcome]]:
    """Series that were measured at 1, 2, 4 and 8 GPUs, grouped by network."""
    series: dict[tuple[str, str, str], dict[int, tuple[float, int]]] = defaultdict(dict)
    for row in csv.DictReader(path.open()):
        device = re.sub(r"\d+x ?", "", row["gpu"]).strip()
        key = (row["model"], device, row["precision"])
        series[key][int(row["n_gpus"])] = (float(row["value"]), int(float(row["per_gpu_batch"])))
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for (network, device, precision), points in series.items():
        if set(points) != {1, 2, 4, 8} or len({batch for _, batch in points.values()}) > 1:
            continue
        batch = points[1][1]
        text = "gpus,per_gpu_batch,throughput\n" + "".join(f"{n},{batch},{points[n][0]}\n" for n in fitted)
        wanted = [(n, 1, batch, n * batch / points[n][0]) for n in rest]
        groups[network] += outcomes(f"{network}, {device}, {precision}", text, wanted)
    return groups


def epochs(path: Path, report: dict[str, object]) -> list[str]:
    """Epochs to target: fitted without the largest batch of every benchmark and ruleset."""
    series: dict[tuple[str, str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(path.open()):
        if row["global_batch_size"] and row["epochs_to_converge_mean"]:
            key = (row["ruleset"], row["benchmark"], row["optimizer"])
            series[key][float(row["global_batch_size"])].append(float(row["epochs_to_converge_mean"]))
    found: dict[tuple[object, ...], list[tuple[float, bool, float]]] = defaultdict(list)
    for (_, benchmark, optimizer), points in series.items():
        batches = sorted(points)
        needed = [float(np.median(points[batch])) for batch in batches]
        if len(batches) < 3:
            continue
        law = fit_epochs(batches[:-1], needed[:-1])
        low, value, high = np.quantile(law.at(np.array([batches[-1]]), seed=1)[:, 0], [0.05, 0.5, 0.95])
        truth = needed[-1]
        outcome = (abs(float(value) / truth - 1), bool(low <= truth <= high), abs(needed[-2] / truth - 1))
        found[(benchmark, optimizer, *batches, *needed)].append(outcome)
    lines = [""]
    every = [outcome for outcomes_ in found.values() for outcome in outcomes_]
    distinct = [outcomes_[0] for outcomes_ in found.values()]
    for name, chosen in (("every ruleset", every), ("distinct figures", distinct)):
        error, inside, last = (np.array(column, dtype=float) for column in zip(*chosen, strict=True))
        report[f"E {name}"] = {
            "series": len(chosen), "median": float(np.median(error)), "mean": float(np.mean(error)),
            "coverage": float(np.mean(inside)), "last_median": float(np.median(last)),
        }  # fmt: skip
        lines.append(
            f"E  epochs to target, largest batch left out, {name}: {len(chosen)} series, median error "
            f"{np.median(error):.1%} (mean {np.mean(error):.1%}), coverage {np.mean(inside):.0%}; "
            f"same epochs as the batch before: median {np.median(last):.1%}"
        )
    return lines


def noise(path: Path, report: dict[str, object]) -> list[str]:
    """Samples to equal progress at larger batches, from the smallest batch and its gradient noise alone."""
    curves: dict[str, dict[int, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(path.open()):
        curves[row["model"]][int(row["global_batch"])].append(row)
    errors: dict[str, list[float]] = defaultdict(list)
    inside = []
    for runs in curves.values():
        base = min(runs)
        own = runs[base]
        square = [float(row["grad_sqr"]) for row in own]
        variance = [
            base * float(row["grad_var"]) for row in own
        ]  # the traces give that of a batch of the base size
        found = noise_scale(square, variance, batch=float(base))
        if found is None:
            continue
        scale = found.value
        whole = base * float(runs[base][-1]["iteration"])
        law = fit_epochs([base], [1.0], noise=scale)
        for batch in sorted(runs)[1:]:
            truth = batch * float(runs[batch][-1]["iteration"]) / whole
            low, value, high = np.quantile(law.at(np.array([float(batch)]), seed=1)[:, 0], [0.05, 0.5, 0.95])
            errors["paceline"].append(abs(value / truth - 1))
            errors["linear"].append(abs(1 / truth - 1))
            errors["noise scale alone"].append(abs((batch + scale) / (base + scale) / truth - 1))
            inside.append(low <= truth <= high)
    report["F"] = {name: float(np.median(e)) for name, e in errors.items()} | {
        "coverage": float(np.mean(inside))
    }
    text = ", ".join(f"{name} {np.median(e):.1%} (mean {np.mean(e):.1%})" for name, e in errors.items())
    return ["", f"F  epochs at larger batches from one noise scale: {len(inside)} pairs, median error {text}; "
                f"coverage {np.mean(inside):.0%}"]  # fmt: skip


def summary(name: str, groups: Sequence[Sequence[Outcome]], report: dict[str, object]) -> list[str]:
    """Errors averaged over networks, every network counting the same."""
    rows = []
    for outcomes_ in groups:
        kept = [o for o in outcomes_ if o.value is not None]
        if not kept:
            continue
        error = float(np.mean([abs((o.value or 0) / o.truth - 1) for o in kept]))
        inside = float(np.mean([(o.low or 0) <= o.truth <= (o.high or 0) for o in kept]))
        width = float(np.exp(np.mean([np.log((o.high or 1) / (o.low or 1)) for o in kept])))
        others = {
            m: float(
                np.mean([abs(v / o.truth - 1) for o in kept if (v := o.others[m]) is not None] or [np.nan])
            )
            for m in METHODS
        }
        rows.append(
            (kept[0].case.split(",")[0], len(kept), len(outcomes_) - len(kept), error, inside, width, others)
        )
    every = [o for group in groups for o in group if o.value is not None]
    thirds = [
        float(np.mean([(o.low or 0) <= o.truth <= (o.high or 0) for o in part])) for part in _thirds(every)
    ]
    width = float(np.exp(np.mean([np.log(row[5]) for row in rows])))
    known = {m: [row[6][m] for row in rows if np.isfinite(row[6][m])] for m in METHODS}
    mean = {m: float(np.mean(values)) if values else None for m, values in known.items()}
    error, inside = float(np.mean([r[3] for r in rows])), float(np.mean([r[4] for r in rows]))
    report[name] = {
        "error": error, "coverage": inside, "baselines": mean, "left_out_network_coverage": left_out_coverage(groups),
        "coverage_by_thirds_of_loss": thirds, "width": width,
        "networks": [dict(zip(_KEYS, row[:6], strict=True)) for row in rows],
    }  # fmt: skip
    found = [
        "",
        f"{name}  error {error:.1%}, coverage of 90 % intervals {inside:.1%} "
        f"(interval width chosen on the other networks: {left_out_coverage(groups):.1%})",
        f"   high/low {width:.2f}; coverage by thirds of the loss: " + ", ".join(f"{c:.0%}" for c in thirds),
        "   beside: " + ", ".join(f"{m} {v:.1%}" for m, v in mean.items() if v is not None),
    ]
    return found + [
        f"   {case[:24]:24} {n:4} points, {refused:3} refused, error {e:6.1%}, coverage {c:6.1%}, high/low {w:.2f}"
        for case, n, refused, e, c, w, _ in rows
    ]


def _thirds(outcomes_: Sequence[Outcome]) -> list[list[Outcome]]:
    """Points by what they truly lost against the fewest workers: little, some, most."""
    ordered = sorted(outcomes_, key=lambda o: o.loss)
    size = len(ordered)
    return [ordered[k * size // 3 : (k + 1) * size // 3] for k in range(3)]


def left_out_coverage(groups: Sequence[Sequence[Outcome]]) -> float:
    """Coverage on each network when the width of intervals is chosen, to cover 90 %, on all the others."""
    scores = [
        np.array(
            [
                abs(np.log(o.truth / o.value)) / (0.5 * np.log(o.high / o.low))
                for o in group
                if o.value and o.low and o.high
            ]
        )
        for group in groups
    ]
    scores = [s for s in scores if len(s)]
    if len(scores) < 2:
        return float("nan")
    covered = []
    for i, own in enumerate(scores):
        others = [s for j, s in enumerate(scores) if j != i]
        weights = np.concatenate([np.full(len(s), 1 / len(s)) for s in others])
        values = np.concatenate(others)
        order = np.argsort(values)
        share = np.cumsum(weights[order]) / weights.sum()
        factor = values[order][min(int(np.searchsorted(share, 0.9)), len(values) - 1)]
        covered.append(float(np.mean(own <= factor)))
    return float(np.mean(covered))


if __name__ == "__main__":
    main()
