"""The numerics modes: every choice of shape and kernel that can change a bit, by name.

On a CPU the kernel that runs, and with it the last bits, depends on the shapes it is given: fp32 linears change with
few rows, scaled_dot_product_attention with the KV length modulo the vector width. So shapes are an explicit choice:

    split      prefill through SDPA, decode through a grouped kernel of its own, both at padded lengths. Neither
               depends on the batch where linears do not (bf16 with at most 384 inputs): what differs is decode.
    natural    SDPA at whatever shapes the batch has; results depend on the batch, as on a loaded server.
    invariant  one SDPA path for both, always 16 query rows, KV length a function of the position, linears in tiles of
               16 rows where rows could matter: results depend on the tokens alone. A self-check refuses the name else.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch

from engine.variables import recorded, versions
from sessions.errors import RefeedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mode = Literal["split", "natural", "invariant"]

DTYPES: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
ROW_TILE: Final = 16
SAFE_INPUTS: Final = 384  # bf16 linears of at most so many inputs gave the same bits for any number of rows
ISA_FLAGS: Final = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "asimd", "bf16", "sve")


@dataclass(frozen=True, slots=True)
class Shapes:
    """What one mode does to shapes.

    Attributes:
        mode: its name.
        own_decode: whether decode has a kernel of its own.
        length_step: KV lengths are padded to a multiple of it, or if that is more, of a quarter of the power of two
            below; each sequence's padded length follows from its own length alone.
        row_multiple: query rows of SDPA and rows of linears are padded to a multiple of it.
        query_tile: most query tokens of one sequence in one SDPA entry.
        tile_linears: whether linears whose bits may depend on the number of rows run in tiles of `ROW_TILE` rows.
    """

    mode: Mode
    own_decode: bool
    length_step: int
    row_multiple: int
    query_tile: int
    tile_linears: bool

    def tile_of(self, share: int) -> int:
        """Query tokens of one SDPA entry, where `share` query heads read one KV head.

        In invariant mode each entry has exactly `ROW_TILE` rows (more only where `share` is more), in decode and in
        prefill: without AVX-512 the last rows of a larger one go through another kernel.
        """
        if self.mode != "invariant":
            return self.query_tile
        return 1 << max(0, (ROW_TILE // share).bit_length() - 1)

    def padded_lengths(self, lengths: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
        """KV lengths that attention runs at, each a function of one sequence's own length; in natural mode as given."""
        if self.length_step == 1:
            return lengths
        below = 2 ** (np.frexp(np.maximum(lengths - 1, 1))[1] - 1)
        step = np.maximum(self.length_step, below // 4)
        padded = -(-lengths // step) * step
        return np.asarray(-(-padded // block_size) * block_size, dtype=np.int64)

    def table_width(self, max_model_len: int, block_size: int) -> int:
        """Blocks of the longest KV length that attention may gather."""
        longest = int(self.padded_lengths(np.array([max_model_len]), block_size)[0])
        return -(-longest // block_size)

    def tiled(self, inputs: int, dtype: torch.dtype) -> bool:
        """Whether a linear with that many inputs runs in tiles of rows."""
        return self.tile_linears and (dtype != torch.bfloat16 or inputs > SAFE_INPUTS)


SHAPES: Final[dict[str, Shapes]] = {
    "split": Shapes("split", True, 64, 16, 16, False),  # noqa: FBT003 - a table of the modes
    "natural": Shapes("natural", False, 1, 1, 256, False),  # noqa: FBT003
    "invariant": Shapes("invariant", False, 64, 16, 16, True),  # noqa: FBT003
}


def shapes_of(mode: str) -> Shapes:
    """The shapes of a mode.

    Raises:
        RefeedError: kind "engine" for an unknown name.
    """
    if mode not in SHAPES:
        raise RefeedError("engine", f"numerics is {mode!r}", f"choose one of {', '.join(SHAPES)}")
    return SHAPES[mode]


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a name.

    Raises:
        RefeedError: kind "engine" for an unknown name.
    """
    if name not in DTYPES:
        raise RefeedError("engine", f"dtype is {name!r}", f"choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


def describe(shapes: Shapes, dtype: str) -> dict[str, str]:
    """The mode, the kernels and the machine code behind every logit, by name, as text (for `EngineInfo.numerics`)."""
    row = str(shapes.row_multiple)
    decode = "grouped bmm, fp32 softmax" if shapes.own_decode else f"sdpa, query rows x{row}"
    tiling = f"entries of {ROW_TILE} rows" if shapes.mode == "invariant" else f"tiles of {shapes.query_tile} queries"
    tiles = f"{ROW_TILE} rows where inputs > {SAFE_INPUTS} or not bfloat16" if shapes.tile_linears else "none"
    return {
        "numerics": shapes.mode,
        "dtype": dtype,
        "threads": str(torch.get_num_threads()),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cpu_isa": cpu_isa(),
        "attention_prefill": f"sdpa, {tiling}, rows x{row}",
        "attention_decode": decode,
        "kv_lengths": f"x{shapes.length_step}, beyond {8 * shapes.length_step} in quarters of powers of two"
        if shapes.length_step > 1
        else "longest of the batch",
        "linear_rows": f"x{row}",
        "linear_tiles": tiles,
        "head": "float32 from the final states",
        "float32_matmul": torch.get_float32_matmul_precision(),
        **versions(("torch",)),
        **recorded(os.environ),
    }


def cpu_isa() -> str:
    """The instruction sets that decide which kernel runs, of those known to matter."""
    flags = set(_cpuinfo("flags").split()) | set(_cpuinfo("Features").split())
    return " ".join([platform.machine(), *(flag for flag in ISA_FLAGS if flag in flags)])


def machine() -> dict[str, str]:
    """Host facts that do not change a logit."""
    return {"cpu": _cpuinfo("model name") or platform.processor() or "unknown", "platform": platform.platform()}


def _cpuinfo(field: str) -> str:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""
