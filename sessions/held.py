"""Side files that a journal names: whether they are there and as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sessions import texts
from sessions.events import ProblemClosed
from sessions.reading import read

if TYPE_CHECKING:
    from sessions.store import SessionFolder


class TextCount(NamedTuple):
    """Side files of a session.

    Attributes:
        match: there, with the hash that the journal names.
        missing: named by the journal and not there.
    """

    match: int
    missing: int


def count_texts(folder: SessionFolder) -> TextCount:
    """Check every side file that a journal names.

    Raises:
        RefeedError: kind "integrity" when one was changed or the journal does not hold; kind "failed" when one cannot
            be read.
    """
    match = missing = 0
    for event in read(folder.journal_path, folder.registration().digest):
        if isinstance(event, ProblemClosed) and event.texts:
            if texts.NAME.fullmatch(event.texts) is not None and not (folder.texts_path / event.texts).exists():
                missing += 1
                continue
            texts.read(folder.texts_path, event.texts, event.texts_sha256)
            match += 1
    return TextCount(match, missing)
