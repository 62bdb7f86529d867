"""The program's version, in one place: pyproject reads it here, and journals record it.

The number after "dev" is raised by each change that lands, so that a journal says which code measured.
"""

from typing import Final

VERSION: Final = "0.2.0.dev1"
__version__ = VERSION
