"""A hub on this machine that speaks enough of the real one's HTTP for its client: listings, files, refusals.

Headers, statuses and error codes are those that huggingface_hub reads; large files are redirected to, as on the real
hub.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

LARGE = (".safetensors", ".bin")
CHUNK = 1 << 16
REPO = Path(__file__).resolve().parents[2]


@cache
def git_blob(content: bytes) -> str:
    """Name of a content in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Repo:
    """A repository of models.

    Attributes:
        files: name to content at its only commit.
        gated: whether reading takes one of `members`.
        private: whether even its name is shown to `members` only.
        members: tokens that may read it.
    """

    files: dict[str, bytes]
    gated: bool = False
    private: bool = False
    members: tuple[str, ...] = ()

    @property
    def commit(self) -> str:
        """A name that its contents decide."""
        listed = json.dumps({name: git_blob(content) for name, content in sorted(self.files.items())})
        return hashlib.sha1(listed.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Hub:
    """The hub's state, which tests change.

    Attributes:
        url: where it listens.
        repos: by name.
        tokens: that it knows.
        asked: method and path of every request, in order.
        hanging: requests wait for this before they are answered; None answers at once.
        paused: large files stop half way until this is set; None sends them whole.
        failing: status that every request gets; 0 for none.
        sizes: whether listings tell sizes.
    """

    url: str
    repos: dict[str, Repo] = field(default_factory=dict)
    tokens: tuple[str, ...] = ("hf_good", "hf_stranger")
    asked: list[str] = field(default_factory=list)
    hanging: threading.Event | None = None
    paused: threading.Event | None = None
    failing: int = 0
    sizes: bool = True

    @property
    def elsewhere(self) -> str:
        """The same server under another host's name, where large files lie; the client tells hosts apart."""
        return self.url.replace("127.0.0.1", "localhost")

    def add(self, name: str, folder: Path, **changes: Any) -> Repo:
        """Publish a folder's files as a repository."""
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
        self.repos[name] = Repo(files, **changes)
        return self.repos[name]

    def got(self, part: str) -> list[str]:
        """The requests that have `part` in them."""
        return [line for line in self.asked if part in line]


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Keep what the answer's status and headers will be."""
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Server(ThreadingHTTPServer):
    """A server that knows its hub."""

    daemon_threads = True
    hub: Hub


class Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    protocol_version = "HTTP/1.1"
    server: Server

    @property
    def hub(self) -> Hub:
        """What is served."""
        return self.server.hub

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def do_GET(self) -> None:
        """Answer with headers and body."""
        self._serve()

    def do_HEAD(self) -> None:
        """Answer with headers alone."""
        self._serve()

    def _serve(self) -> None:
        self.hub.asked.append(f"{self.command} {self.path}")
        if self.hub.hanging is not None:
            self.hub.hanging.wait()
        try:
            self._answer()
        except ConnectionError:  # who asked did not wait
            self.close_connection = True

    def _answer(self) -> None:
        try:
            self._route(urlsplit(self.path))
        except RefusedError as refused:
            self._refuse(refused)

    def _route(self, url: Any) -> None:
        if self.hub.failing:
            raise RefusedError(self.hub.failing, "", "out of order")
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        if parts[0] == "cdn":
            contents = (content for repo in self.hub.repos.values() for content in repo.files.values())
            self._content(next(content for content in contents if sha(content) == parts[1]))
        elif parts[:2] == ["api", "models"]:
            repo = self._repo("/".join(parts[2:4]))
            self._list(repo, "/".join(parts[2:4]), parts[4:], parse_qs(url.query))
        else:
            self._file(self._repo("/".join(parts[:2])), "/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _token(self) -> str:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and token not in self.hub.tokens:
            raise RefusedError(401, "", "Invalid credentials in Authorization header")
        return token

    def _repo(self, name: str) -> Repo:
        token = self._token()
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and token not in repo.members):
            raise RefusedError(404 if token else 401, "RepoNotFound", "Repository not found")
        return repo

    def _at(self, repo: Repo, revision: str) -> None:
        if revision not in {"main", repo.commit}:
            raise RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    def _list(self, repo: Repo, name: str, rest: list[str], query: dict[str, list[str]]) -> None:
        self._at(repo, rest[1] if rest else "main")
        if rest and rest[0] == "tree":
            self._json([{"type": "file", "path": path, **entry(path, content)} for path, content in repo.files.items()])
            return
        siblings = [{"rfilename": path} for path in repo.files]
        if "blobs" in query and self.hub.sizes:
            siblings = [{"rfilename": path, **blob(path, content)} for path, content in repo.files.items()]
        gated = "manual" if repo.gated else False
        self._json(
            {"_id": "0", "id": name, "sha": repo.commit, "private": repo.private, "gated": gated,
             "disabled": False, "downloads": 0, "likes": 0, "tags": [], "siblings": siblings}
        )  # fmt: skip

    def _file(self, repo: Repo, name: str, revision: str, path: str) -> None:
        self._at(repo, revision)
        token = self._token()
        if repo.gated and token not in repo.members:
            said = "You must have access to it and be authenticated to access it. Please log in."
            if token:
                said = f"You are not in the authorized list. Visit {self.hub.url}/{name} to ask for access."
            raise RefusedError(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted. {said}")
        if path not in repo.files:
            raise RefusedError(404, "EntryNotFound", "Entry not found")
        content = repo.files[path]
        headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{git_blob(content)}"'}
        if path.endswith(LARGE):
            linked = {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{sha(content)}"'}
            self._head(302, 0, headers | linked | {"Location": f"{self.hub.elsewhere}/cdn/{sha(content)}"})
        else:
            self._content(content, headers)

    def _content(self, content: bytes, headers: dict[str, str] | None = None) -> None:
        asked = (self.headers.get("Range") or "").removeprefix("bytes=").partition("-")
        begin = int(asked[0] or 0)
        span = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if begin else {}
        self._head(206 if begin else 200, len(content) - begin, (headers or {}) | span)
        if self.command == "HEAD":
            return
        half = (begin + len(content)) // 2
        self.wfile.write(content[begin:half])
        self.wfile.flush()
        if self.hub.paused is not None and len(content) > CHUNK:
            self.hub.paused.wait()
        self.wfile.write(content[half:])

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(length)} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def _json(self, value: object) -> None:
        self._content(json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, refused: RefusedError) -> None:
        body = json.dumps({"error": refused.message}).encode()
        codes = {"X-Error-Code": refused.code} if refused.code else {}
        headers = codes | {"X-Error-Message": refused.message, "Content-Type": "application/json"}
        self._head(refused.status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)


@cache
def sha(content: bytes) -> str:
    """Name of a large file's content."""
    return hashlib.sha256(content).hexdigest()


def blob(path: str, content: bytes) -> dict[str, Any]:
    """What a listing of a repository says of a file."""
    large = {"lfs": {"sha256": sha(content), "size": len(content), "pointerSize": 130}} if path.endswith(LARGE) else {}
    return {"blobId": git_blob(content), "size": len(content), **large}


def entry(path: str, content: bytes) -> dict[str, Any]:
    """What a listing of a folder says of a file."""
    large = {"lfs": {"oid": sha(content), "size": len(content), "pointerSize": 130}} if path.endswith(LARGE) else {}
    return {"oid": git_blob(content), "size": len(content), **large}


@contextmanager
def running() -> Iterator[Hub]:
    """A hub on a free port, until the block ends."""
    server = Server(("127.0.0.1", 0), Handler)
    server.hub = hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        for waited in (hub.hanging, hub.paused):
            if waited is not None:
                waited.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def asked_by_this_process(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Hub]:
    """A hub that the client in this process speaks to, with a cache of its own and no token.

    The client reads its environment when it is imported; what it made of it is changed here, and the environment is for
    the process that downloads.
    """
    constants = importlib.import_module("huggingface_hub.constants")
    urls = "HUGGINGFACE_CO_URL_TEMPLATE"
    with running() as hub:
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        # Up to 0.36 this module has a copy of its own, taken when it was imported.
        monkeypatch.setattr(importlib.import_module("huggingface_hub.file_download"), urls, template, raising=False)
        for name, value in {
            "ENDPOINT": hub.url,
            urls: template,
            "HF_HUB_CACHE": str(home / "hub"),
            "HF_TOKEN_PATH": str(home / "token"),
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(home))
        # Before what is there already: a client of another version stays in front of the installed one.
        monkeypatch.setenv("PYTHONPATH", str(REPO), prepend=os.pathsep)
        for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(variable, raising=False)
        yield hub
