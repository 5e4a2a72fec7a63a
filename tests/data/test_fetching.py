"""Downloads: what goes wrong leaves nothing wrong behind."""

import dataclasses
import io
import os
import random
import shutil
import socket
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from companion.data import DataError, fetch, load, verify
from companion.data.fetching import cache_folder, unpacked
from tests.data.server import TEXT, tar, zipped


def everything_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []


def states(name: str = "toy") -> list[str]:
    return [state.state for state in verify(name)]


def test_fetched_once(server, cache, catalogue, capfd):
    catalogue(server.entry("whole", "text.txt"))
    assert states() == ["absent"]
    (path,) = fetch("toy")
    assert path == cache / "toy" / "text.txt" and path.read_bytes() == TEXT
    assert everything_in(cache) == ["toy", "toy/text.txt"]
    assert states() == ["ok"]
    assert fetch("toy") == [path] and server.requests == ["/whole/text.txt"]
    assert capfd.readouterr() == ("", "")  # a notebook cell would show it


def test_load_gives_the_paths(server, cache, catalogue):
    catalogue(server.entry("whole", "text.txt"))
    with pytest.raises(DataError, match=r"text.txt not found in .*toy.*data fetch toy"):
        load("toy")
    assert server.requests == []
    assert load("toy", download=True) == {"text.txt": cache / "toy" / "text.txt"}
    assert load("toy") == {"text.txt": cache / "toy" / "text.txt"}


def test_load_calls_the_loader_with_the_paths(server, cache, catalogue):
    def loader(paths):
        assert paths == {"text.txt": cache / "toy" / "text.txt"}
        return paths["text.txt"].read_bytes()[:5]

    catalogue(server.entry("whole", "text.txt", loader=loader))
    assert load("toy", download=True) == b"to be"


@pytest.mark.parametrize("way", ["half", "short"])
def test_a_connection_that_breaks_off(server, cache, catalogue, way):
    catalogue(server.entry(way, "text.txt"))
    with pytest.raises(DataError, match="toy: .*text.txt.*COMPANION_DATA.*copy it to") as caught:
        fetch("toy")
    assert f"{server.url}/{way}/text.txt" in str(caught.value)
    assert everything_in(cache) == ["toy"]
    assert states() == ["absent"]


def test_the_wrong_file(server, cache, catalogue):
    catalogue(server.entry("wrong", "text.txt"))
    with pytest.raises(DataError, match="is not the text.txt we know.*sha256:.*not kept"):
        fetch("toy")
    assert everything_in(cache) == ["toy"]


@pytest.mark.parametrize(
    "url", ["http://[::1/text.txt", "http://" + 70 * "a" + ".org/text.txt", "http://"]
)
def test_an_address_that_is_none(server, cache, catalogue, url):
    """What else is a ValueError is not the hash."""
    entry = server.entry("whole", "text.txt")
    file = dataclasses.replace(entry.files[0], url=url)
    catalogue(dataclasses.replace(entry, files=(file,)))
    with pytest.raises(DataError, match="^toy: cannot fetch text.txt from http"):
        fetch("toy")
    assert everything_in(cache) in ([], ["toy"])


def test_no_such_file(server, cache, catalogue):
    catalogue(server.entry("elsewhere", "text.txt"))
    with pytest.raises(DataError, match="the server answered 404"):
        fetch("toy")
    assert everything_in(cache) == ["toy"]


def test_nobody_there(server, cache, catalogue):
    with socket.socket() as taken:  # bound but not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        catalogue(server.entry("whole", "text.txt"))
        with pytest.raises(DataError, match=r"cannot fetch text.txt from http.*\(no connection\)"):
            fetch("toy")
    assert everything_in(cache) == ["toy"]


def test_a_server_that_never_answers(server, cache, catalogue, monkeypatch):
    monkeypatch.setattr("companion.data.fetching.TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        catalogue(server.entry("whole", "text.txt"))
        with pytest.raises(DataError, match=r"no answer within 0.2 s"):
            fetch("toy")


def test_the_second_file_fails(server, cache, catalogue):
    server.files["more.txt"] = b"more"
    good, bad = server.entry("whole", "text.txt"), server.entry("half", "more.txt")
    catalogue(server.entry("whole", "text.txt", **{"files": good.files + bad.files}))
    with pytest.raises(DataError, match="more.txt"):
        fetch("toy")
    assert states() == ["ok", "absent"]  # what is whole stays


@pytest.mark.parametrize("content", [b"", TEXT[:-1], TEXT + b"x", b"\0" * len(TEXT)])
def test_a_damaged_file_is_seen_and_replaced(server, cache, catalogue, content):
    catalogue(server.entry("whole", "text.txt"))
    (path,) = fetch("toy")
    path.write_bytes(content)
    assert states() == ["wrong"]
    assert fetch("toy") == [path] and path.read_bytes() == TEXT
    assert len(server.requests) == 2 and states() == ["ok"]


def test_load_does_not_take_a_damaged_file(server, cache, catalogue):
    catalogue(server.entry("half", "text.txt"))
    path = cache / "toy" / "text.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(TEXT[:100])
    with pytest.raises(DataError, match=r"text.txt damaged.*data fetch toy.*download=True"):
        load("toy")
    assert server.requests == []  # nobody allowed a download
    with pytest.raises(DataError, match="cannot fetch"):
        load("toy", download=True)
    assert path.read_bytes() == TEXT[:100]  # what the user had is not destroyed by our failure


def test_a_file_left_by_a_killed_process_is_not_taken(server, cache, catalogue):
    (cache / "toy").mkdir(parents=True)
    (cache / "toy" / "tmpabcdef").write_bytes(TEXT[:50])
    catalogue(server.entry("whole", "text.txt"))
    assert states() == ["absent"]
    assert fetch("toy")[0].read_bytes() == TEXT


def test_a_file_the_user_copied(server, cache, catalogue):
    catalogue(server.entry("half", "text.txt"))
    (cache / "toy").mkdir(parents=True)
    (cache / "toy" / "text.txt").write_bytes(TEXT)
    assert fetch("toy") == [cache / "toy" / "text.txt"] and server.requests == []


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_a_folder_that_cannot_be(server, cache, catalogue):
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be")
    catalogue(server.entry("whole", "text.txt"))
    with pytest.raises(DataError, match="cannot write .*text.txt.*COMPANION_DATA"):
        fetch("toy")


@pytest.mark.parametrize(("name", "pack"), [("toy.tar.gz", tar), ("toy.zip", zipped)])
def test_archives_are_unpacked_beside_themselves(server, cache, catalogue, name, pack):
    server.files[name] = pack(("folder/a.txt", b"A"), ("./b.txt", b"B"), ("empty.txt", b""))
    catalogue(server.entry("whole", name, unpack=True))
    (path,) = fetch("toy")
    folder = unpacked(path)
    assert folder == cache / "toy" / "toy"
    assert everything_in(folder) == ["b.txt", "empty.txt", "folder", "folder/a.txt"]
    assert (folder / "folder" / "a.txt").read_bytes() == b"A"
    assert load("toy") == {name: folder}
    # unpacked again only if something is lost
    before = folder.stat().st_ino
    fetch("toy")
    assert folder.stat().st_ino == before and states() == ["ok"]
    path.write_bytes(b"damaged")
    assert states() == ["wrong"]
    fetch("toy")
    assert states() == ["ok"] and len(server.requests) == 2
    names = {p.name for p in (cache / "toy").iterdir()}
    assert names == {"toy", ".toy.unpacked", name}  # nothing temporary


@pytest.mark.parametrize("loss", ["deleted", "cut", "half a folder", "no marker", "bad marker"])
def test_an_unpacked_folder_that_lost_something(server, cache, catalogue, loss):
    server.files["toy.tar.gz"] = tar(("folder/a.txt", b"A"), ("b.txt", b"BB"))
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    folder = load("toy", download=True)["toy.tar.gz"]
    marker = folder.with_name(".toy.unpacked")
    if loss == "deleted":
        (folder / "b.txt").unlink()
    elif loss == "cut":
        (folder / "b.txt").write_bytes(b"B")
    elif loss == "half a folder":
        (folder / "folder" / "a.txt").unlink()
        (folder / "folder").rmdir()
    elif loss == "no marker":
        marker.unlink()
    else:
        marker.write_text("[1, 2")
    assert states() == ["wrong"]
    assert load("toy") == {"toy.tar.gz": folder}  # from the archive: no network
    assert (folder / "b.txt").read_bytes() == b"BB"
    assert everything_in(folder) == ["b.txt", "folder", "folder/a.txt"] and states() == ["ok"]
    assert len(server.requests) == 1


def test_an_archive_of_which_a_part_is_bad_leaves_the_old_folder(server, cache, catalogue):
    server.files["toy.tar.gz"] = tar(("a.txt", b"A"), ("../evil.txt", b"evil"))
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    (cache / "toy" / "toy").mkdir(parents=True)
    (cache / "toy" / "toy" / "mine.txt").write_bytes(b"mine")
    with pytest.raises(DataError, match="outside its folder"):
        fetch("toy")
    assert everything_in(cache / "toy" / "toy") == ["mine.txt"]


def test_a_move_that_fails_leaves_the_old_folder(server, cache, catalogue, monkeypatch):
    server.files["toy.tar.gz"] = tar(("a.txt", b"A"))
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    folder = cache / "toy" / "toy"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_bytes(b"mine")
    replace = os.replace

    def full(source, target):
        if Path(target) == folder and Path(source).name == "toy":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("companion.data.unpacking.os.replace", full)
    with pytest.raises(DataError, match="cannot be unpacked .*No space left"):
        fetch("toy")
    assert everything_in(cache / "toy") == ["toy", "toy.tar.gz", "toy/mine.txt"]


def test_many_unpack_at_once(server, cache, catalogue):
    members = [(f"{i}.txt", b"x" * 100) for i in range(50)]
    server.files["toy.tar.gz"] = tar(*members)
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    for _ in range(5):
        shutil.rmtree(cache, ignore_errors=True)
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(load, "toy", download=True) for _ in range(8)]
        folders = {call.result()["toy.tar.gz"] for call in calls}
        assert folders == {cache / "toy" / "toy"}
        assert len(everything_in(cache / "toy" / "toy")) == 50


def test_without_locks_the_last_move_decides(server, cache, catalogue, monkeypatch):
    # Windows has no fcntl: another process may be first between our look and our move
    server.files["toy.tar.gz"] = tar(("a.txt", b"A"))
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    replace = os.replace

    def late(source, target):
        if Path(target).name == "toy" and not Path(target).exists():
            shutil.copytree(source, target)
            shutil.copy(Path(source).with_name("marker"), Path(target).with_name(".toy.unpacked"))
        replace(source, target)

    monkeypatch.setattr("companion.data.unpacking.os.replace", late)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert load("toy", download=True) == {"toy.tar.gz": cache / "toy" / "toy"}
    assert states() == ["ok"]


EVIL = [
    "../evil.txt",
    "/evil.txt",
    "folder/../../evil.txt",
    "..",
    "C:/evil.txt",
    "..\\evil.txt",
    ".",
]


@pytest.mark.parametrize("member", EVIL)
@pytest.mark.parametrize(("name", "pack"), [("toy.tar.gz", tar), ("toy.zip", zipped)])
def test_nothing_is_written_outside(server, cache, catalogue, member, name, pack):
    server.files[name] = pack(("good.txt", b"good"), (member, b"evil"))
    catalogue(server.entry("whole", name, unpack=True))
    with pytest.raises(DataError, match="outside its folder; nothing was unpacked"):
        fetch("toy")
    assert everything_in(cache) == ["toy", f"toy/{name}"]
    assert list(cache.parent.rglob("evil*")) == []


def test_links_are_refused(server, cache, catalogue):
    server.files["toy.tar.gz"] = tar(("a.txt", b"A"), links=(("folder/out", "/etc"),))
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    with pytest.raises(DataError, match="'folder/out' is a link or a device"):
        fetch("toy")
    assert everything_in(cache) == ["toy", "toy/toy.tar.gz"]


def test_an_archive_that_is_none(server, cache, catalogue):
    server.files["toy.tar.gz"] = b"no archive"
    catalogue(server.entry("whole", "toy.tar.gz", unpack=True))
    with pytest.raises(DataError, match="toy.tar.gz cannot be unpacked"):
        fetch("toy")
    assert everything_in(cache) == ["toy", "toy/toy.tar.gz"]
    with pytest.raises(ValueError, match="expected a tar or zip archive"):
        unpacked(Path("toy.txt"))


def changed(archive: bytes, local: int, central: int, value: int) -> bytes:
    """A zip archive with another byte in the header of its last file, and in its entry."""
    found = bytearray(archive)
    found[found.rindex(b"PK\x03\x04") + local] = value
    found[found.rindex(b"PK\x01\x02") + central] = value
    return bytes(found)


def nameless() -> bytes:
    """A zip archive of a file whose name is empty."""
    buffer, info = io.BytesIO(), zipfile.ZipInfo("a.txt")
    info.filename = ""
    with zipfile.ZipFile(buffer, "w") as archive, archive.open(info, "w") as file:
        file.write(b"A")
    return buffer.getvalue()


def deflated(first: int) -> bytes:
    """A zip archive of a compressed file, with this first byte."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"A" * 100)
    found = bytearray(buffer.getvalue())
    found[30 + len("a.txt")] = first
    return bytes(found)


def xz(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


NOISE = random.Random(0).randbytes(20_000).hex().encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("toy.zip", changed(zipped(("a.txt", b"A")), 6, 8, 1)),  # encrypted
        ("toy.zip", changed(zipped(("a.txt", b"A")), 8, 10, 99)),  # a compression nobody knows
        ("toy.zip", nameless()),
        ("toy.zip", deflated(7)),  # blocks of type 3, which there is not
        ("toy.tar.gz", tar(("a.txt", NOISE))[:-3000]),
        ("toy.tar.xz", xz(NOISE)[:5000] + bytes(64) + xz(NOISE)[5064:]),
        ("toy.tar.xz", xz(NOISE)[:-3000]),
    ],
    ids=["encrypted", "compression", "no name", "deflated", "gz", "xz", "cut"],
)
def test_archives_that_cannot_be_read(server, cache, catalogue, name, content):
    server.files[name] = content
    catalogue(server.entry("whole", name, unpack=True))
    with pytest.raises(DataError, match=f"^toy: .*{name}"):
        fetch("toy")
    assert everything_in(cache) == ["toy", f"toy/{name}"]


def test_where_files_go(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("COMPANION_DATA", "~/data")
    assert cache_folder() == Path.home() / "data"
    monkeypatch.setenv("COMPANION_DATA", "~no-such-user/data")
    with pytest.raises(DataError, match="COMPANION_DATA=~no-such-user/data"):
        cache_folder()
    monkeypatch.setenv("COMPANION_DATA", "")
    assert cache_folder().name == "recurrence-companion"


def test_sets_that_are_not_downloads(cache):
    (path,) = fetch("surnames")
    assert path.name == "surnames.tsv" and path.is_file()
    assert fetch("digits") == [] and verify("digits") == []
    with pytest.raises(ValueError, match="no data set 'toy'"):
        fetch("toy")
    with pytest.raises(ValueError, match="no data set 'toy'"):
        verify("toy")
    found = {state.dataset: state.state for state in verify()}
    assert found["surnames"] == "ok" and found["ptb"] == "absent"


def test_a_damaged_vendored_file_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr("companion.data.fetching.FILES", tmp_path)
    (tmp_path / "surnames").mkdir()
    (tmp_path / "surnames" / "surnames.tsv").write_text("Smith\tEnglish\n")
    assert states("surnames") == ["wrong"]
