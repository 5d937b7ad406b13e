"""`paceline data`: published files come whole or not at all, from a server that breaks off, lies, or is not there."""

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from paceline.cli.main import exit_code
from paceline.core.errors import PacelineError
from paceline.store.download import download

CONTENT = gzip.compress(bytes(range(256)) * 4000, compresslevel=0)
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Server(BaseHTTPRequestHandler):
    breaks_after = None
    asked = []  # noqa: RUF012 - the ranges that clients asked for

    def do_GET(self):
        held = self.headers.get("Range", "bytes=0-")
        self.asked.append(held)
        first = int(held.removeprefix("bytes=").rstrip("-"))
        rest = CONTENT[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: Server.breaks_after])

    def log_message(self, *words):
        pass


@pytest.fixture
def url():
    Server.breaks_after, Server.asked[:] = None, []
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file.gz"
        server.shutdown()


def test_a_file_is_fetched_once_and_then_only_checked(tmp_path, url):
    path, sizes = tmp_path / "new" / "file.gz", []
    assert download(url, path, md5=MD5, came=sizes.append) is True
    assert path.read_bytes() == CONTENT
    assert sizes[-1] == len(CONTENT)
    assert download(url, path, md5=MD5, came=sizes.append) is False
    assert len(Server.asked) == 1
    assert [left.name for left in path.parent.iterdir()] == ["file.gz"]


def test_a_download_that_breaks_off_goes_on_where_it_stopped(tmp_path, url):
    path = tmp_path / "file.gz"
    Server.breaks_after = 100_000
    with pytest.raises(PacelineError, match="cannot fetch"):
        download(url, path, md5=MD5, came=lambda size: None)
    assert not path.exists()
    Server.breaks_after = None
    assert download(url, path, md5=MD5, came=lambda size: None)
    assert path.read_bytes() == CONTENT
    assert Server.asked == ["bytes=0-", "bytes=100000-"]


def test_a_wrong_checksum_is_refused_and_the_file_never_gets_its_name(tmp_path, url):
    with pytest.raises(PacelineError, match=f"published is {'0' * 32}"):
        download(url, tmp_path / "file.gz", md5="0" * 32, came=lambda size: None)
    assert not (tmp_path / "file.gz").exists()


def test_a_damaged_file_that_is_there_is_named(tmp_path, url):
    (tmp_path / "file.gz").write_bytes(CONTENT[:-1])
    with pytest.raises(PacelineError, match="published is"):
        download(url, tmp_path / "file.gz", md5=MD5, came=lambda size: None)


def test_without_a_network_the_answer_says_what_to_do(tmp_path, capsys):
    code = exit_code(["data", "mnist", "--to", str(tmp_path), "--source", "http://127.0.0.1:9/"])
    said = capsys.readouterr().err
    assert code == 1
    assert "cannot fetch http://127.0.0.1:9/train-images-idx3-ubyte.gz" in said
    assert "by hand" in said


def test_a_mirror_with_other_files_is_found_out_by_the_published_checksum(tmp_path, capsys, url):
    assert exit_code(["data", "mnist", "--to", str(tmp_path), "--source", url.rpartition("/")[0]]) == 1
    assert "published is f68b3c2dcbeaaa9fbdd348bbdeb94873" in capsys.readouterr().err


def test_data_are_listed_and_unknown_ones_refused(capsys):
    assert exit_code(["data"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} >= {"mnist", "cifar-10"}
    assert exit_code(["data", "imagenet"]) == 1
    assert "'imagenet' is not known; there are mnist" in capsys.readouterr().err
    assert exit_code(["data", "fruit"]) == 1
    assert "cannot be downloaded" in capsys.readouterr().err
