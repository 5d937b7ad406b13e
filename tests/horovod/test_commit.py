"""The commit of an elastic training is its own launch's alone: what anybody else left is not run, read or followed."""

import os
import subprocess
import sys

import pytest
import torch

from paceline.launch.horovod.hosts import Host, Meeting, script_on
from paceline.launch.horovod.launcher import launched
from paceline_horovod.torch.elastic import commit
from paceline_horovod.torch.elastic.commit import CommitRefused

ELASTIC = """
import horovod.torch as hvd

hvd.init()
state = hvd.elastic.ObjectState(epoch=0)
hvd.elastic.run(lambda state: print("epoch", state.epoch))(state)
"""


LAUNCHED = """
import os, sys
import horovod.torch as hvd

hvd.init()
state = hvd.elastic.ObjectState(epoch=0)
folder = os.environ["PACELINE_HOROVOD_STATE"]

@hvd.elastic.run
def train(state):
    print("epoch", state.epoch, folder, f"{os.stat(folder).st_mode & 0o777:o}", os.environ["PACELINE_HOROVOD_LAUNCH"])
    state.epoch += 1
    state.commit()
    sys.exit(state.epoch < 3)

train(state)
"""


class Planted:
    """Unpickled, it makes the folder whose name it carries."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.fixture
def launch(monkeypatch, tmp_path):
    """A launch of our own: commits lie below tmp_path."""
    monkeypatch.setenv("PACELINE_HOROVOD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PACELINE_HOROVOD_LAUNCH", "first")
    (tmp_path / "state").mkdir()


def plant(path, folder):
    path.parent.mkdir(mode=0o700, exist_ok=True)
    torch.save({"epoch": Planted(folder)}, path)
    path.chmod(0o600)


def restarted(script, **environment):
    """The script as torchrun starts it for the second time."""
    told = {
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "3",
    }
    return subprocess.run(
        [sys.executable, "-m", "paceline_horovod", str(script)],
        env={**os.environ, **told, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_pickle_under_a_guessed_name_in_the_temporary_folder_does_not_run(tmp_path):
    (tmp_path / "train.py").write_text(ELASTIC)
    plant(tmp_path / f"paceline-horovod-none-{os.getpid()}.pt", tmp_path / "ran")
    done = restarted(tmp_path / "train.py", TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert (done.returncode, done.stdout) == (0, "epoch 0\n"), done.stderr


def test_a_pickle_in_the_place_of_the_commit_does_not_run(tmp_path, launch):
    (tmp_path / "train.py").write_text(ELASTIC)
    plant(commit.commit_file(), tmp_path / "ran")
    done = restarted(tmp_path / "train.py")
    assert not (tmp_path / "ran").exists()
    assert done.returncode != 0
    assert "holds more than tensors and plain values" in done.stderr.splitlines()[-1]
    assert "chmod" not in done.stderr


def test_a_commit_is_read_back_by_the_launch_that_wrote_it(launch):
    assert commit.read() is None
    commit.write({"epoch": 3, "weights": torch.ones(2)})
    held = commit.read()
    assert (held["epoch"], held["weights"].tolist()) == (3, [1.0, 1.0])
    assert [
        oct(path.stat().st_mode & 0o777) for path in (commit.commit_file(), commit.commit_file().parent)
    ] == [
        "0o600",
        "0o700",
    ]


def test_a_commit_of_another_launch_is_never_restored(launch, monkeypatch):
    commit.write({"epoch": 3})
    left = commit.commit_file()
    monkeypatch.setenv("PACELINE_HOROVOD_LAUNCH", "second")
    assert commit.read() is None
    left.rename(commit.commit_file())
    with pytest.raises(CommitRefused, match="another launch"):
        commit.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_what_belongs_to_another_user_is_refused(launch, whose):
    commit.write({"epoch": 3})
    path = commit.commit_file()
    os.chown(path if whose == "file" else path.parent, 12345, -1)
    with pytest.raises(CommitRefused, match="belongs to user 12345"):
        commit.read()
    if whose == "folder":
        with pytest.raises(CommitRefused, match="belongs to user 12345"):
            commit.write({"epoch": 4})


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755, 0o702])
def test_a_folder_open_to_others_is_refused(launch, mode):
    commit.write({"epoch": 3})
    commit.commit_file().parent.chmod(mode)
    for call in (commit.read, lambda: commit.write({"epoch": 4}), commit.discard):
        with pytest.raises(CommitRefused, match=f"mode {mode:o}"):
            call()


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o644])
def test_a_file_open_to_others_is_refused(launch, mode):
    commit.write({"epoch": 3})
    commit.commit_file().chmod(mode)
    with pytest.raises(CommitRefused, match=f"mode {mode:o}"):
        commit.read()


def test_a_link_is_not_followed_to_be_read(launch, tmp_path):
    commit.write({"epoch": 3})
    path = commit.commit_file()
    path.rename(tmp_path / "elsewhere.pt")
    path.symlink_to(tmp_path / "elsewhere.pt")
    with pytest.raises(CommitRefused, match="symbolic link"):
        commit.read()


def test_a_link_is_replaced_and_not_followed_to_be_written(launch, tmp_path):
    commit.write({"epoch": 3})
    path, victim = commit.commit_file(), tmp_path / "victim"
    victim.write_text("kept")
    path.unlink()
    path.symlink_to(victim)
    commit.write({"epoch": 4})
    assert victim.read_text() == "kept"
    assert commit.read() == {"epoch": 4}


def test_a_folder_that_is_a_link_is_refused(launch, tmp_path):
    commit.write({"epoch": 3})
    folder = commit.commit_file().parent
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    for call in (commit.read, lambda: commit.write({"epoch": 4}), commit.discard):
        with pytest.raises(CommitRefused, match="symbolic link"):
            call()


def test_a_pipe_in_the_place_of_the_commit_is_refused_at_once(launch):
    commit.write({"epoch": 3})
    commit.commit_file().unlink()
    os.mkfifo(commit.commit_file(), 0o600)
    with pytest.raises(CommitRefused, match="no plain file"):
        commit.read()


def test_what_a_launch_leaves_is_discarded_whole(launch):
    commit.discard()
    commit.write({"epoch": 3})
    path = commit.commit_file()
    (path.parent / f"{path.stem}.0011.part").touch()  # of a worker killed while it wrote
    commit.discard()
    assert not path.parent.exists()


def test_the_launcher_gives_every_launch_a_name_and_a_private_folder_that_is_gone_at_its_end(tmp_path):
    (tmp_path / "train.py").write_text(LAUNCHED)
    launch = [sys.executable, "-m", "paceline", "horovod", "run", "-np", "1", "--reset-limit", "2"]
    done = subprocess.run(
        [*launch, sys.executable, str(tmp_path / "train.py")],
        env={**os.environ, "TMPDIR": str(tmp_path), "PACELINE_HOROVOD_LAUNCH": "an outer one"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    epochs, folders, modes, names = zip(*(line.split()[1:] for line in done.stdout.splitlines()), strict=True)
    assert (epochs, set(modes)) == (("0", "1", "2"), {"700"})
    assert len(set(folders)) == len(set(names)) == 1
    assert len(names[0]) == 32
    assert not os.path.exists(folders[0])


def test_hosts_share_the_name_of_the_launch_and_have_private_folders_of_their_own():
    script = script_on(
        (Host("a", 1), Host("b", 1)),
        1,
        ["python", "train.py"],
        python="python",
        meeting=Meeting("a", 29500),
        restarts=1,
        folder="/work",
        environment=launched(),
        archive_bytes=1,
    )
    assert 'PACELINE_HOROVOD_STATE="$D" PACELINE_HOROVOD_LAUNCH=' in script
    assert launched() != launched()


def test_a_commit_that_could_not_be_read_back_is_refused_when_it_is_made(tmp_path):
    (tmp_path / "train.py").write_text(
        "import pathlib, horovod.torch as hvd\n"
        "hvd.init()\n"
        "hvd.elastic.ObjectState(data=pathlib.Path('x')).commit()\n"
    )
    done = restarted(tmp_path / "train.py", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "TypeError: state['data'] is a pathlib." in last
    done = restarted(tmp_path / "train.py", XDG_CACHE_HOME=str(tmp_path), TORCHELASTIC_MAX_RESTARTS="0")
    assert done.returncode == 0, done.stderr  # nothing will be started again: nothing is written
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
