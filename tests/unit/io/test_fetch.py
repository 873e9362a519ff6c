"""Downloads against a server in a thread that can break off, lie and go wrong."""

import gzip
import hashlib
import io
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from anykg.errors import InputError
from anykg.io.catalog import get_dataset
from anykg.io.datasets import DATASETS
from anykg.io.fetch import Checksum, download, extract, fetch, known_checksums

CONTENT = b"".join(b"entity%d\trelation\tentity%d\n" % (i, i + 1) for i in range(20_000))


class Server(ThreadingHTTPServer):
    """Serves `contents` by path; `faults` are spent one a request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents, self.faults, self.requests = {}, [], []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        content = self.server.contents.get(self.path)
        if content is None or fault == "500":
            self.send_error(404 if content is None else 500)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and fault != "no range" else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        self.wfile.write(body[: len(body) // 2] if fault == "truncated" else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def checksum(content):
    return Checksum(len(content), hashlib.sha256(content).hexdigest())


def everything_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def archive(members):
    """A .tar.gz of (name, content) pairs; content may be a ready TarInfo."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            if isinstance(content, bytes):
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


# -- one file ---------------------------------------------------------------------------------------------------------


def test_download_reports_progress_and_leaves_only_the_file(server, tmp_path):
    server.contents["/a.txt"] = CONTENT
    seen = []
    download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT), advance=lambda *state: seen.append(state))
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert everything_in(tmp_path) == ["a.txt"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_download_goes_on_from_a_part(server, tmp_path):
    server.contents["/a.txt"] = CONTENT
    (tmp_path / "a.txt.part").write_bytes(CONTENT[:1000])
    download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT))
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert server.requests == [("/a.txt", "bytes=1000-")]


def test_download_starts_over_where_the_server_cannot_resume(server, tmp_path):
    server.contents["/a.txt"] = CONTENT
    server.faults = ["no range"]
    (tmp_path / "a.txt.part").write_bytes(CONTENT[:1000])
    download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT))
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize("left_behind", [b"not the beginning", CONTENT, CONTENT + b"more"])
def test_download_recovers_from_a_bad_part(server, tmp_path, left_behind):
    server.contents["/a.txt"] = CONTENT
    (tmp_path / "a.txt.part").write_bytes(left_behind)
    download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT), pause=0)
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert everything_in(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("fault", ["truncated", "500"])
def test_download_tries_again_after_a_passing_fault(server, tmp_path, fault):
    server.contents["/a.txt"] = CONTENT
    server.faults = [fault]
    download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT), pause=0)
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    resumed_at = f"bytes={len(CONTENT) // 2}-" if fault == "truncated" else None
    assert server.requests[1] == ("/a.txt", resumed_at)


def test_download_cut_short_every_time_leaves_a_part_to_go_on_from(server, tmp_path):
    server.contents["/a.txt"] = CONTENT
    server.faults = ["truncated", "truncated"]
    with pytest.raises(InputError, match=r"connection ended after [\d,]+ of [\d,]+ bytes"):
        download(f"{server.url}/a.txt", tmp_path / "a.txt", attempts=2, pause=0)
    assert everything_in(tmp_path) == ["a.txt.part"]
    download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT))
    assert (tmp_path / "a.txt").read_bytes() == CONTENT


def test_download_refuses_other_content_and_keeps_nothing(server, tmp_path):
    server.contents["/a.txt"] = CONTENT.replace(b"entity7\t", b"entity8\t")
    with pytest.raises(InputError, match=r"expected .* bytes with SHA-256 .*, found"):
        download(f"{server.url}/a.txt", tmp_path / "a.txt", checksum(CONTENT), pause=0)
    assert everything_in(tmp_path) == []
    assert len(server.requests) == 1


def test_download_does_not_repeat_a_request_that_cannot_succeed(server, tmp_path):
    with pytest.raises(InputError, match="404"):
        download(f"{server.url}/gone.txt", tmp_path / "gone.txt", pause=0)
    assert len(server.requests) == 1
    assert everything_in(tmp_path) == []


def test_download_says_what_is_wrong_with_the_connection(tmp_path):
    with pytest.raises(InputError, match="could not be downloaded"):
        download("http://127.0.0.1:9/a.txt", tmp_path / "a.txt", attempts=2, pause=0)


# -- a dataset file by file -------------------------------------------------------------------------------------------


@pytest.fixture
def pair(server):
    """EN-FR on the test server: row and checksums."""
    row = get_dataset("EN-FR")
    row = replace(row, source=f"{server.url}/{row.prefix}")
    contents = {path: path.encode() * 10 for path in row.files}
    server.contents = {f"/{path}": content for path, content in contents.items()}
    return row, {path: checksum(content) for path, content in contents.items()}


def test_fetch_brings_every_file(server, pair, tmp_path):
    row, checksums = pair
    seen = []
    fetched = fetch(row, tmp_path, checksums=checksums, advance=lambda *state: seen.append(state))
    assert everything_in(tmp_path) == sorted(row.files)
    assert all(file.downloaded and file.verified for file in fetched)
    total = sum(known.bytes for known in checksums.values())
    assert seen[-1] == (total, total)


def test_fetch_keeps_what_is_there(server, pair, tmp_path):
    row, checksums = pair
    fetch(row, tmp_path, checksums=checksums)
    (tmp_path / row.files[0]).unlink()
    server.requests.clear()
    assert [file.downloaded for file in fetch(row, tmp_path, checksums=checksums)] == [True] + [False] * 7
    assert len(server.requests) == 1


def test_fetch_does_not_replace_a_file_with_other_content(pair, tmp_path):
    row, checksums = pair
    (tmp_path / row.files[0]).parent.mkdir(parents=True)
    (tmp_path / row.files[0]).write_text("mine")
    with pytest.raises(InputError, match="move it away"):
        fetch(row, tmp_path, checksums=checksums)
    assert (tmp_path / row.files[0]).read_text() == "mine"


def test_fetch_says_where_it_cannot_write(pair, tmp_path):
    row, checksums = pair
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        fetch(row, tmp_path / "file", checksums=checksums)


def test_fetch_of_what_cannot_be_fetched(tmp_path):
    with pytest.raises(InputError, match="no public address"):
        fetch(get_dataset("nell-995"), tmp_path)
    with pytest.raises(InputError, match="comes with anykg"):
        fetch(get_dataset("atlas"), tmp_path)


# -- a dataset in an archive ------------------------------------------------------------------------------------------

TRIPLETS = {name: name.encode() * 5 for name in ("train.txt", "valid.txt", "test.txt")}


def packed(server, members):
    row = replace(get_dataset("fb15k-237"), source=f"{server.url}/FB15k-237.tar.gz")
    server.contents["/FB15k-237.tar.gz"] = members if isinstance(members, bytes) else archive(members)
    return row, {f"{row.prefix}/{name}": checksum(content) for name, content in TRIPLETS.items()}


@pytest.mark.parametrize("prefix", ["", "./", "Release/"])
def test_fetch_takes_only_the_expected_files_out_of_an_archive(server, tmp_path, prefix):
    members = [(prefix + name, content) for name, content in TRIPLETS.items()]
    row, checksums = packed(server, [*members, (prefix + "._train.txt", b"x"), (prefix + "run.sh", b"x")])
    fetched = fetch(row, tmp_path, checksums=checksums)
    assert everything_in(tmp_path) == sorted(row.files)
    assert (tmp_path / row.prefix / "test.txt").read_bytes() == TRIPLETS["test.txt"]
    assert all(file.verified for file in fetched)


def test_fetch_without_known_checksums_says_so(server, tmp_path):
    row, _ = packed(server, TRIPLETS.items())
    assert [(file.downloaded, file.verified) for file in fetch(row, tmp_path, checksums={})] == [(True, False)] * 3


def link(kind, target):
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (("../train.txt", b"evil"), "leads out"),
        (("/tmp/train.txt", b"evil"), "leads out"),
        (("..\\train.txt", b"evil"), "leads out"),
        (("train.txt", link(tarfile.SYMTYPE, "/etc/passwd")), "link"),
        (("train.txt", link(tarfile.LNKTYPE, "../secret")), "link"),
        (("other", link(tarfile.SYMTYPE, "..")), "link"),
        (("again/test.txt", b"twice"), "more than once"),
        (("fifo", link(tarfile.FIFOTYPE, "")), "expected the files"),
    ],
)
def test_fetch_refuses_an_unsafe_archive_whole(server, tmp_path, bad, message):
    good = [(name, content) for name, content in TRIPLETS.items() if name != "train.txt"]
    row, checksums = packed(server, [*good, bad])
    data_dir = tmp_path / "data"
    with pytest.raises(InputError, match=message):
        fetch(row, data_dir, checksums=checksums)
    assert everything_in(tmp_path) == []


def test_fetch_refuses_an_archive_with_other_files_in_it(server, tmp_path):
    row, checksums = packed(server, [*list(TRIPLETS.items())[:2], ("test.txt", b"changed")])
    with pytest.raises(InputError, match=r"test\.txt in it: expected"):
        fetch(row, tmp_path, checksums=checksums)
    assert everything_in(tmp_path) == []


def damaged(content):
    return content[:-30] + bytes(30)


@pytest.mark.parametrize("spoil", [damaged, lambda content: content[:80], lambda content: b"<html>"])
def test_fetch_refuses_a_damaged_archive(server, tmp_path, spoil):
    noise = [(name, hashlib.shake_128(content).digest(3000)) for name, content in TRIPLETS.items()]
    row, _ = packed(server, spoil(archive(noise)))
    with pytest.raises(InputError, match="cannot be unpacked"):
        fetch(row, tmp_path, checksums={})
    assert everything_in(tmp_path) == []


def test_extract_stops_at_the_largest_size(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(archive([("train.txt", bytes(100_000)), ("test.txt", bytes(100_000))]))
    with pytest.raises(InputError, match="larger"):
        extract(path, tmp_path, {"train.txt", "test.txt"}, largest=150_000)
    assert not (tmp_path / "test.txt").exists()
    extract(path, tmp_path, {"train.txt", "test.txt"}, largest=300_000)
    path.write_bytes(path.read_bytes() + gzip.compress(bytes(1_000_000)))
    with pytest.raises(InputError, match="larger"):
        extract(path, tmp_path, {"train.txt", "test.txt"}, largest=300_000)


# -- the known checksums ----------------------------------------------------------------------------------------------


def test_every_file_with_an_address_has_a_checksum_but_those_of_yago():
    without = {row.name for row in DATASETS if row.source and not set(row.files) <= known_checksums().keys()}
    assert without == {"yago3-10"}
    assert set(known_checksums()) <= {path for row in DATASETS for path in row.files}


def test_checksums_are_those_of_the_public_files(data_dir):
    for row in DATASETS:
        if row.source and (data_dir / row.files[0]).is_file():
            assert not any(file.downloaded for file in fetch(row, data_dir))
