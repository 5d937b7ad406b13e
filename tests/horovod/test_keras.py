"""Keras 3 on its torch backend trains over the Horovod API (tests/scripts/horovod_keras.py)."""

import importlib.util

import pytest

from tests.horovod.test_calls import SCRIPTS
from tests.support.warm import run_ranks

pytestmark = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is not installed")


def test_two_ranks_train_one_keras_model(tmp_path):
    for code, output in run_ranks(2, SCRIPTS / "horovod_keras.py", tmp_path, KERAS_BACKEND="torch"):
        assert code == 0, output
        assert "all held" in output


def test_a_backend_that_is_missing_or_another_is_answered_with_the_variable_to_set(tmp_path):
    script = tmp_path / "other.py"
    script.write_text("import paceline_horovod.keras")
    [(code, output)] = run_ranks(1, script, KERAS_BACKEND="tensorflow")
    assert code == 1
    assert "set KERAS_BACKEND=torch" in output
    fake = "import sys, types\nk = sys.modules['keras'] = types.ModuleType('keras')\n"
    backend = "k.backend = types.SimpleNamespace(backend=lambda: 'jax')\n"
    script.write_text(fake + backend + "import paceline_horovod.keras")
    [(code, output)] = run_ranks(1, script)
    assert code == 1
    assert "jax backend" in output
