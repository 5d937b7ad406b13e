# Ran on commit a558025 (2026-11-19)
"""Measure settings of nine networks, predict each from two others, write the errors: python predict.py [NAMES].

Run from the root of the repository with its environment; writes results.json beside this file.
"""

import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.support.trial import trial  # noqa: E402
from tests.support.warm import WarmLauncher  # noqa: E402

from paceline.measure.memory import fullest  # noqa: E402
from paceline.predict.memory import Known, forecast  # noqa: E402

BATCHES = {
    "mnist": (16, 32, 64), "vit": (8, 16, 32), "deepwide": (8, 16, 32), "cifar-resnet18": (4, 8, 16),
    "caltech": (4, 8, 16), "fruit": (4, 8, 16), "steering": (8, 16, 32), "decoder": (2, 4, 8), "encoder": (4, 8, 16),
}  # fmt: skip
NAMES = {"fsdp": "fsdp2"}


def measured(name, workers, batch, strategy):
    transformer = name in ("decoder", "encoder")
    script = str(HERE / "transformers.py") if transformer else f"-m paceline_workloads.{name.replace('-', '_')}"
    words = ("--batch-size", str(batch), "--strategy", strategy)
    with tempfile.TemporaryDirectory() as folder:
        result = trial(
            Path(folder), script, *((name,) if transformer else ()), *words,
            workers=workers, steps=10, warmup=5, launcher=WarmLauncher(),
        )  # fmt: skip
    use = fullest(result.workers) if result.state == "ok" else None
    if use is None:
        return None
    found = "none" if workers == 1 else NAMES.get(strategy, strategy)
    return Known(f"w{workers}-b{batch}-{strategy}", workers, batch, found, (), use)


def main(names):
    path = HERE / "results.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        small, middle, large = BATCHES[name]
        settings = [(1, small, "ddp"), (1, large, "ddp"), (2, small, "ddp"), (2, large, "ddp")]
        settings += [(2, middle, "zero1"), (2, middle, "fsdp"), (4, small, "fsdp"), (1, middle, "ddp")]
        seen = {s: found for s in settings if (found := measured(name, *s)) is not None}
        rows = []
        for basis, keys in {"1 worker, 2 batches": settings[:2], "2 workers under DDP, 2 batches": settings[2:4]}.items():
            base = [seen[key] for key in keys if key in seen]
            for key, known in seen.items():
                if key in keys or len(base) < 2:
                    continue
                found = forecast(
                    base, workers=known.workers, batch=known.batch, strategy=known.strategy, limit_bytes=None
                ).tensors_bytes
                peak = known.use.peak_bytes
                rows.append(
                    {
                        "from": basis, "setting": known.point, "measured_bytes": peak,
                        "predicted_bytes": found.value, "error_ratio": found.value / peak - 1,
                        "inside": found.low <= peak <= found.high,
                    }
                )  # fmt: skip
        uses = {k.point: {n: v for n, v in asdict(k.use).items() if n != "shapes"} for k in seen.values()}
        kept[name] = {"rows": rows, "measured": uses}
        path.write_text(json.dumps(kept, indent=1))
        for basis in dict.fromkeys(row["from"] for row in rows):
            own = [row for row in rows if row["from"] == basis]
            mean = statistics.mean(abs(row["error_ratio"]) for row in own)
            inside = sum(row["inside"] for row in own)
            print(f"{name:15} from {basis:32} mean error {mean:6.2%}, in the interval {inside} of {len(own)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(BATCHES))
