"""What a problem's trunks, continuations and probes said: one compressed side file a problem, for drill-down.

A side file is written and fsynced before the ProblemClosed that names it and its SHA-256, and is never changed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from sessions.disk.files import FOLDER_MODE, failure, open_folder, read_bounded, write_atomic
from sessions.errors import RefeedError
from sessions.events import Count, PassName, Probe

if TYPE_CHECKING:
    from collections.abc import Sequence

Arm = Literal["actual", "alternative"]

# A problem of the paper's K = 16 run takes a few megabytes; these bounds are for files from strangers.
MAX_FILE: Final = 64 << 20
MAX_TEXT: Final = 512 << 20
NAME: Final = re.compile(r"problem-[0-9]{1,16}-attempt-[0-9]{1,16}\.json\.gz")
_LEVEL: Final = 1
_DIGEST_BYTES: Final = 8
_GZIP_BITS: Final = 31


class TrunkText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One rollout.

    Attributes:
        rollout: number within the problem.
        tokens: generated token ids.
        text: of these.
        sampled: raw logprob of each generated token, nats.
        top: (token id, raw logprob) of the likeliest tokens at each place, likeliest first.
    """

    rollout: Count
    tokens: tuple[int, ...]
    text: str
    sampled: tuple[float, ...] = ()
    top: tuple[tuple[tuple[int, float], ...], ...] = ()


class ContinuationText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One graded continuation.

    Attributes:
        name: of its pass.
        rollout: of its pivot.
        position: of its pivot, absolute.
        arm: which token was forced.
        k: number within the arm.
        tokens: generated token ids, without the forced one.
        text: of these.
        finish: "stop" or "length".
        correct: grade.
    """

    name: PassName
    rollout: Count
    position: Count
    arm: Arm
    k: Count
    tokens: tuple[int, ...]
    text: str
    finish: str
    correct: bool


class ProbeText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One greedy probe.

    Attributes:
        name: of its pass.
        rollout: of its pivot.
        position: of its pivot, absolute.
        arm: which token was forced.
        tokens: generated token ids.
        logprobs: raw logprob of each; float32 values, which JSON numbers keep to the last bit.
    """

    name: PassName
    rollout: Count
    position: Count
    arm: Arm
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class ProblemTexts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was written in one attempt at a problem.

    Attributes:
        problem: task index.
        attempt: which run of the worker, from 0.
        prompt: token ids of the prompt that all its trunks share.
        question: the problem, as text.
        answer: the right answer, as text.
        trunks: by rollout.
        continuations: in request order, pass by pass.
        probes: in request order, pass by pass.
    """

    problem: Count
    attempt: Count
    prompt: tuple[int, ...]
    question: str = ""
    answer: str = ""
    trunks: tuple[TrunkText, ...] = ()
    continuations: tuple[ContinuationText, ...] = ()
    probes: tuple[ProbeText, ...] = ()


def probe_of(tokens: Sequence[int], logprobs: Sequence[float]) -> Probe:
    """Record a greedy probe: its first token, and digests that are equal only when every token or bit is.

    Args:
        tokens: generated ids, at least one.
        logprobs: raw logprob of each, nats.
    """
    return Probe(
        first_token=tokens[0],
        first_logprob=logprobs[0],
        length=len(tokens),
        tokens=_digest(struct.pack(f"<{len(tokens)}i", *tokens)),
        logprobs=_digest(struct.pack(f"<{len(logprobs)}f", *logprobs)),
    )


def _digest(packed: bytes) -> str:
    return hashlib.blake2b(packed, digest_size=_DIGEST_BYTES).hexdigest()


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(ProblemTexts).decode


def write(folder: Path, texts: ProblemTexts) -> tuple[str, str]:
    """Store a problem's texts; they survive a power cut once this returns.

    Args:
        folder: the session's texts folder; created if absent.
        texts: what was written.

    Returns:
        name of the file within `folder`, and its SHA-256 hex.

    Raises:
        RefeedError: kind "failed", with the cause: a full disk, or a value that would not read back (not finite).
    """
    name = f"problem-{texts.problem}-attempt-{texts.attempt}.json.gz"
    plain = _encode(texts)
    try:
        _decode(plain)
    except msgspec.DecodeError as error:
        raise RefeedError("failed", f"texts of problem {texts.problem} would not read back: {error}") from None
    data = gzip.compress(plain, compresslevel=_LEVEL, mtime=0)
    try:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise failure("make", folder, error) from error
    with open_folder(folder):  # a link would lead the write out of the session
        write_atomic(folder / name, data)
    return name, hashlib.sha256(data).hexdigest()


def names(folder: Path) -> set[str]:
    """What lies in a session's texts folder, but for what a writer has not finished; nothing where there is none.

    Raises:
        RefeedError: kind "integrity" when the folder is a link; kind "failed" when it cannot be looked into.
    """
    try:
        with open_folder(folder) as inside, os.scandir(inside) as entries:
            return {entry.name for entry in entries if not entry.name.startswith(".")}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise failure("look into", folder, error) from error


def is_there(folder: Path, name: str) -> bool:
    """Whether something has a side file's name; a link is something, and `read` refuses it.

    Raises:
        RefeedError: kind "integrity" when the folder is a link; kind "failed" when it cannot be looked into.
    """
    try:
        with open_folder(folder) as inside:
            os.stat(name, dir_fd=inside, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failure("look at", folder / name, error) from error
    return True


def read(folder: Path, name: str, sha256: str) -> ProblemTexts:
    """Load a problem's texts.

    Args:
        folder: the session's texts folder.
        name: as ProblemClosed has it.
        sha256: as ProblemClosed has it.

    Raises:
        RefeedError: kind "integrity" when the name is no name of a side file, or the file is missing, changed, too
            large, or not understood; kind "failed" when it cannot be read.
    """
    if NAME.fullmatch(name) is None:
        raise RefeedError("integrity", f"{name[:80]!a} is no name of a side file", "the journal was not written by us")
    path = folder / name
    try:
        with open_folder(folder) as inside:
            data = read_bounded(Path(name), MAX_FILE, folder=inside)
    except FileNotFoundError:
        raise RefeedError("integrity", f"{path} is missing", "texts may be left out of a copied session") from None
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise RefeedError(
            "integrity", f"{path} hashes to {found[:16]}, but the journal says {sha256[:16]!a}", "the file was changed"
        )
    try:
        return _decode(_inflate(data, path))
    except (msgspec.DecodeError, RecursionError) as error:
        raise RefeedError("integrity", f"{path} cannot be understood: {str(error)[:200]!a}") from None


def _inflate(data: bytes, path: Path) -> bytes:
    inflate = zlib.decompressobj(_GZIP_BITS)
    try:
        plain = inflate.decompress(data, MAX_TEXT)
    except zlib.error as error:
        raise RefeedError("integrity", f"{path} cannot be unpacked: {error}") from None
    if inflate.unconsumed_tail:
        raise RefeedError("integrity", f"{path} unpacks to more than {MAX_TEXT >> 20} MiB", "no session writes that")
    if not inflate.eof or inflate.unused_data:
        raise RefeedError("integrity", f"{path} is cut short, or has something behind its end")
    return plain
