"""dtypes and shapes in words, and the line of the user's code that a message came from."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor


def describe(x: Tensor) -> str:
    """dtype and shape in the short form of messages: ``float32[2, 3]``."""
    return _described(x.dtype, x.shape)


@lru_cache(maxsize=1024)
def _described(dtype: torch.dtype, shape: torch.Size) -> str:
    """Remembered: after a wait for other ranks, making the text anew took 20 us, as long as a message."""
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


_OURS = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
_BETWEEN = ("/contextlib.py", "/threading.py", "/typing_extensions.py", "/warnings.py")
"""Files of decorators and context managers that may stand between a user's line and ours."""
_is_ours: dict[str, bool] = {}  # a cache: which files are partkit's or torch's; a file's name knows its hash, a code object works it out anew


def call_site() -> str:
    """``file:line`` of the innermost frame that is neither partkit's nor torch's; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = _is_ours.get(file)
        if ours is None:
            ours = _is_ours[file] = file.startswith(_OURS) or file.startswith("<frozen") or file.endswith(_BETWEEN)
        if not ours:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
