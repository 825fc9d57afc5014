"""Where in a program an operation of torch.distributed comes from: its source line, and what the program is doing there.

    frame (innermost first)                            says
    torch/distributed/distributed_c10d.py  all_gather_object      part of it: one call, several operations
    partkit, the rest of torch                                    nothing
    train.py:17                                                   the source line: the innermost that is neither partkit's nor torch's
    torch/nn/modules/module.py  _call_impl                        a module's forward

In backward, whose operations come out of the autograd engine, the source line is that of ``loss.backward()``.
"""

from __future__ import annotations

import sys
from types import FrameType

import torch

from partkit.communicator import call_site

COMPOSED = {
    "all_gather_object",
    "batch_isend_irecv",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
}
"""Functions of torch.distributed that are made of several operations."""
_API = torch.distributed.distributed_c10d.__file__
_MODULE = torch.nn.modules.module.__file__


def whence() -> tuple[str, list[str]]:
    """The source line, and what the program is doing, outermost first: ``["forward", "all_gather_object"]``."""
    composed, forward = "", False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if file == _API and name in COMPOSED:
            composed = name
        forward = forward or (name == "_call_impl" and file == _MODULE)
        frame = frame.f_back
    phase = "backward" if torch._C._current_graph_task_id() != -1 else "forward" if forward else ""
    return call_site(), [part for part in (phase, composed) if part]
