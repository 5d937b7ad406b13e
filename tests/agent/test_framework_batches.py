"""What others' libraries train: the strategy has its name, and the batch is what all workers consume together."""

from __future__ import annotations

import pytest

from tests.agent.test_batches import UNSOUND, analysed

IDS = 16  # in a sentence
BATCH = 16  # of two workers
EXPECTED = [
    ("accelerate", "accelerate", "ddp", None),
    ("accelerate_dispatch", "accelerate", "ddp", None),
    ("lightning", "lightning", "ddp", None),
    ("fabric", "lightning", "ddp", None),
    ("hf_trainer", "transformers", "ddp", BATCH * IDS),
    ("trl_sft", "trl", "ddp", BATCH * IDS),
    ("deepspeed_1", "deepspeed", "deepspeed + zero1", None),
    ("deepspeed_2", "deepspeed", "deepspeed + zero2", None),
    ("deepspeed_3", "deepspeed", "deepspeed + zero3", None),
]
QUICK = ("lightning", "hf_trainer", "deepspeed_2")


@pytest.mark.parametrize(
    ("kind", "library", "strategy", "tokens"),
    [pytest.param(*row, marks=() if row[0] in QUICK else pytest.mark.slow) for row in EXPECTED],
)
def test_a_library_is_seen_through(tmp_path, kind, library, strategy, tokens):
    pytest.importorskip(library, reason=f"{library} is not installed: pip install --group frameworks")
    at, found = analysed(tmp_path, "frameworks.py", kind, workers=(2,))
    assert found & (UNSOUND | {"batch-unseen"}) == set()
    assert (at[2].strategy, at[2].replicas, at[2].point.global_batch) == (strategy, 2, BATCH)
    counted = at[2].tokens_per_s and at[2].tokens_per_s.value * at[2].step_s.value
    assert counted == (tokens and pytest.approx(tokens, rel=0.01))
