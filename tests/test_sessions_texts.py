from __future__ import annotations

import errno
import gzip
import hashlib
import os
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.disk import texts as module
from sessions.disk.texts import probe_of, read, write
from sessions.errors import RefeedError
from tests.helpers.session_texts import example

if TYPE_CHECKING:
    from pathlib import Path


def test_texts_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Name and hash lead back to the same record; the file is private, small and the same each time."""
    folder = tmp_path / "texts"
    name, sha256 = write(folder, example())
    assert name == "problem-7-attempt-2.json.gz"
    assert read(folder, name, sha256) == example()
    assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    assert write(folder, example()) == (name, sha256)
    assert [path.name for path in folder.iterdir()] == [name]


@settings(max_examples=50, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_logprobs_are_kept_to_the_last_bit(tmp_path_factory: pytest.TempPathFactory, value: float) -> None:
    """A float32 value survives being written as a JSON number."""
    folder = tmp_path_factory.mktemp("texts")
    found = read(folder, *write(folder, example(value))).probes[0].logprobs[0]
    assert struct.pack("<f", found) == struct.pack("<f", value)


def test_a_probe_s_digests_are_equal_only_when_every_token_and_bit_is() -> None:
    """The first token stands in the record; a later token or the last bit of a later logprob changes a digest."""
    step = -0.25 - 2.0**-25  # one bit of float32 below -0.25
    one = probe_of((5, 6), (-0.5, -0.25))
    assert (one.first_token, one.first_logprob, one.length) == (5, -0.5, 2)
    assert probe_of((5, 6), (-0.5, -0.25)) == one
    other, shifted = probe_of((5, 7), (-0.5, -0.25)), probe_of((5, 6), (-0.5, step))
    assert (other.tokens != one.tokens, other.logprobs == one.logprobs) == (True, True)
    assert (shifted.tokens == one.tokens, shifted.logprobs != one.logprobs) == (True, True)
    assert probe_of((5,), (-0.5,)).tokens != one.tokens


def test_a_value_that_would_not_read_back_is_refused(tmp_path: Path) -> None:
    """Infinity has no JSON number; nothing is written."""
    with pytest.raises(RefeedError, match="would not read back"):
        write(tmp_path, example(float("-inf")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../spec.json",
        "/etc/passwd",
        "problem-1-attempt-1.json.gz/..",
        "problem-1-attempt-1.json.gz\n",
        "\x1b[2J",
        "x" * 999,
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    """Only the names that we write are opened."""
    with pytest.raises(RefeedError, match="no name of a side file") as caught:
        read(tmp_path, name, "")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", ["file link", "folder link", "pipe", "missing", "no folder"])
def test_links_pipes_and_missing_files_are_plain_errors(tmp_path: Path, kind: str) -> None:
    """A link out of the session is not followed, a pipe is not waited for."""
    real = tmp_path / "real"
    name, sha256 = write(real, example())
    folder = tmp_path / "texts"
    if kind == "folder link":
        folder.symlink_to(real)
        with pytest.raises(RefeedError, match="not a plain folder"):
            write(folder, example())
    elif kind != "no folder":
        folder.mkdir()
    if kind == "file link":
        (folder / name).symlink_to(real / name)
    if kind == "pipe":
        os.mkfifo(folder / name)
    with pytest.raises(RefeedError, match=r"plain|missing|regular") as caught:
        read(folder, name, sha256)
    assert caught.value.kind == "integrity"


def test_changed_cut_and_padded_files_are_found(tmp_path: Path) -> None:
    """The hash in the journal decides; a stranger's journal that matches his file still meets the format's checks."""
    name, sha256 = write(tmp_path, example())
    path = tmp_path / name
    whole = path.read_bytes()
    for data in (
        whole[:-1],
        whole + b"x",
        whole[:50],
        b"",
        b"not gzip",
        gzip.compress(b"{}"),
        gzip.compress(b"[" * 9999),
    ):
        path.write_bytes(data)
        with pytest.raises(RefeedError, match="hashes to"):
            read(tmp_path, name, sha256)
        with pytest.raises(RefeedError, match=r"cut short|unpacked|understood"):
            read(tmp_path, name, hashlib.sha256(data).hexdigest())


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacking stops at the bound, before the memory is taken."""
    monkeypatch.setattr(module, "MAX_TEXT", 1 << 20)
    name, _ = write(tmp_path, example())
    bomb = gzip.compress(bytes(64 << 20))
    (tmp_path / name).write_bytes(bomb)
    with pytest.raises(RefeedError, match="more than 1 MiB"):
        read(tmp_path, name, hashlib.sha256(bomb).hexdigest())


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says why, and nothing half-written stays."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RefeedError, match="No space left on device; free some space"):
        write(tmp_path, example())
    assert list(tmp_path.iterdir()) == []
