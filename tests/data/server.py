"""A server on 127.0.0.1 that answers well, badly, or half."""

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from companion.data import DataFile, DataSet

TEXT = b"to be, or not to be\n" * 5000


class Handler(http.server.BaseHTTPRequestHandler):
    """``/whole/f`` sends f, ``/half/f`` cuts the connection, ``/wrong/f`` sends something else.

    ``/short/f`` sends half without saying how much there is, so that nothing looks broken.
    """

    files: dict[str, bytes]
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        way, _, name = self.path.lstrip("/").partition("/")
        content = self.files.get(name)
        if content is None or way not in ("whole", "half", "wrong", "short"):
            self.send_error(404)
            return
        self.send_response(200)
        if way != "short":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if way == "wrong":
            content = b"x" * len(content)
        self.wfile.write(content if way in ("whole", "wrong") else content[: len(content) // 2])

    def log_message(self, *_: object) -> None:
        pass


class Server:
    """Address, files to serve, and the requests that came."""

    def __init__(self, port: int, handler: type[Handler]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.files, self.requests = handler.files, handler.requests

    def entry(self, way: str, *names: str, unpack: bool = False, **fields: object) -> DataSet:
        """A catalogue entry ``toy`` whose files this server sends in one way or another."""
        files = tuple(
            DataFile(
                name,
                "sha256:" + hashlib.sha256(self.files[name]).hexdigest(),
                f"{self.url}/{way}/{name}",
                unpack,
            )
            for name in names
        )
        given = dict(task="t", size="s", license="l", source="s", kind="download", files=files)
        return DataSet(name="toy", **{**given, **fields})


@contextmanager
def running() -> Iterator[Server]:
    handler = type("Fresh", (Handler,), {"files": {"text.txt": TEXT}, "requests": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield Server(server.server_address[1], handler)
        finally:
            server.shutdown()


def tar(*members: tuple[str, bytes], links: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A .tar.gz with these files and symbolic links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, to in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, to
            archive.addfile(info)
    return buffer.getvalue()


def zipped(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/", b"")
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()
