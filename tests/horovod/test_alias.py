"""`import horovod` finds paceline_horovod, once, and only where no Horovod is installed."""

import subprocess
import sys


def python(*lines, **environment):
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, **environment
    )


def test_a_module_is_the_same_under_both_names():
    done = python(
        "from paceline_horovod.alias import install",
        "said = []",
        "assert install(lambda: said.append(1)) and not install()",
        "import os; assert 'HOROVOD_RANK' not in os.environ  # nobody has asked for Horovod yet",
        "import horovod.torch as hvd, horovod.torch.mpi_ops, horovod.common.exceptions as e",
        "import paceline_horovod.torch, paceline_horovod.common.exceptions",
        "assert said == [1] and os.environ['HOROVOD_RANK'] == '0'",
        "assert hvd is paceline_horovod.torch and e is paceline_horovod.common.exceptions",
        "assert hvd.HorovodInternalError is e.HorovodInternalError",
        "assert hvd.__name__ == hvd.__spec__.name == 'paceline_horovod.torch'",
        "hvd.init(); assert (hvd.rank(), hvd.size(), hvd.cross_size()) == (0, 1, 1)",
        "import torch; assert hvd.allreduce(torch.tensor(3)).item() == 3 and hvd.join() == 0",
    )
    assert done.returncode == 0, done.stderr


def test_an_installed_horovod_is_left_alone(tmp_path):
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("theirs = True")
    done = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})",
        "from paceline_horovod.alias import install",
        "assert not install()",
        "import horovod; assert horovod.theirs",
    )
    assert done.returncode == 0, done.stderr


def test_what_is_not_there_is_said_plainly():
    done = python(
        "from paceline_horovod.alias import install; install()",
        "import horovod.tensorflow as hvd",
        "hvd.init()",
    )
    assert done.returncode == 1
    assert "TensorFlow itself is not supported" in done.stderr
    for absent in ("mxnet", "spark", "ray"):
        done = python("from paceline_horovod.alias import install; install()", f"import horovod.{absent}")
        assert f"No module named 'horovod.{absent}'" in done.stderr
        assert "Paceline provides horovod.torch" in done.stderr


def test_keras_is_put_on_torch_only_where_it_could_not_start_otherwise(tmp_path):
    """Its own choice is read from keras.json; only the finding of modules is asked, nothing is imported."""
    for chosen, expected in (("torch", None), ("none-such", "torch")):
        (tmp_path / "keras.json").write_text(f'{{"backend": "{chosen}"}}')
        done = python(
            "import os, sys, types; os.environ.pop('KERAS_BACKEND', None)",
            f"os.environ['KERAS_HOME'] = {str(tmp_path)!r}",
            "import importlib.util as u; real = u.find_spec",
            "u.find_spec = lambda name, *a: types if name == 'keras' else real(name, *a)",
            "from paceline_horovod.alias import install; install()",
            f"assert os.environ.get('KERAS_BACKEND') == {expected!r}, os.environ.get('KERAS_BACKEND')",
        )
        assert done.returncode == 0, done.stderr
