"""What is built can be installed: the wheel, made from the sdist, has every file that the code reads."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import paceline

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PACKAGES = sorted(path.name for path in SRC.iterdir() if (path / "__init__.py").exists())
SITES = [path for path in sys.path if path.endswith("site-packages")]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed: make check does it"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    where = tmp_path_factory.mktemp("built")
    build(ROOT, "sdist", where)
    (sdist,) = where.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(where, filter="data")
    build(where / sdist.name.removesuffix(".tar.gz"), "wheel", where)
    (built,) = where.glob("*.whl")
    return built


def build(project, target, where):
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", where]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel alone; what it depends on is seen where it lies here."""
    where = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", where], check=True)
    python = where / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, wheel], check=True, capture_output=True)
    (site,) = where.glob("lib/python*/site-packages")
    (site / "seen.pth").write_text("\n".join(SITES) + "\n")
    return where


def typed(installed, *args):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        [installed / "bin" / args[0], *args[1:]], env=clean, capture_output=True, text=True, check=True
    ).stdout


def test_the_wheel_has_every_file_of_the_sources(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    kept = {
        path.relative_to(SRC).as_posix()
        for package in PACKAGES
        for path in (SRC / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"paceline/data/gpus.toml", "paceline/data/recipes/mnist.toml"} < kept
    assert {"paceline/report/templates/page.html", "paceline/serve/templates/frame.html"} < kept
    assert kept - held == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(wheel, package):
    assert f"{package}/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_the_installed_command_answers_from_the_installed_files(installed):
    assert "Measure a training script" in typed(installed, "paceline", "--help")
    assert typed(installed, "paceline", "--version").strip() == f"paceline {paceline.__version__}"
    assert "cifar-resnet18" in typed(installed, "paceline", "recipe", "list")
    where = typed(installed, "python", "-c", "import paceline; print(paceline.__file__)")
    assert Path(where.strip()).is_relative_to(installed)


def test_the_version_is_the_same_wherever_it_is_written():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert (project, cited[1]) == (paceline.__version__, paceline.__version__)
