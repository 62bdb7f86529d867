"""The program's version, in one place: pyproject reads it here, and journals record it."""

from typing import Final

VERSION: Final = "0.1.0"
__version__ = VERSION
