"""How a trace tells what a rank's tensors hold: as metrics, whose names are fixed here for those who write and those who read.

    name                                                value    when                                           source line
    memory: activations                                 bytes    whenever they change, one name for each use    what changed them
    memory: cap                                         bytes    first, if the device has an end                of the ``with``
    memory: at the peak: activations: 3 x float32[8]    bytes    in the end, for the few largest                what made them

What changes at one moment is noted one by one; their ``seq`` counts down, so that the state holds again at 0.
In any world (`partkit.counting.memory`), so that one view reads them all (`partkit.figures.memory`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Use = Literal["parameters", "gradients", "optimizer state", "activations", "buffers", "other"]
USES: tuple[Use, ...] = get_args(Use)
"""What tensors are for, in the order in which they are told."""
PREFIX = "memory: "
"""Of the names of all metrics about memory."""
CAP = PREFIX + "cap"
_PEAK = PREFIX + "at the peak: "


class Share(NamedTuple):
    """Tensors of one kind that were held at the peak."""

    use: Use
    what: str
    """dtype and shape, ``float32[8, 100]``."""
    number: int
    nbytes: int
    """Of all of them."""
    site: str
    """Source line that made them."""


def metric_of(use: Use) -> str:
    """The name under which the bytes of one use are noted.

    Example:
        >>> metric_of("gradients")
        'memory: gradients'
    """
    return PREFIX + use


def share_metric(share: Share) -> str:
    """The name under which tensors at the peak are noted.

    Example:
        >>> share_metric(Share("activations", "float32[8, 100]", 3, 9600, "train.py:4"))
        'memory: at the peak: activations: 3 x float32[8, 100]'
    """
    return f"{_PEAK}{share.use}: {share.number} x {share.what}"


def read_share(name: str, value: float, site: str) -> Share | None:
    """A metric as tensors at the peak; None if it is another one.

    Example:
        >>> read_share("memory: at the peak: activations: 3 x float32[8, 100]", 9600, "train.py:4")
        Share(use='activations', what='float32[8, 100]', number=3, nbytes=9600, site='train.py:4')
        >>> read_share("loss", 1.0, "train.py:9") is None
        True
    """
    if not name.startswith(_PEAK):
        return None
    use, _, tensors = name.removeprefix(_PEAK).partition(": ")
    number, _, what = tensors.partition(" x ")
    return Share(next(known for known in USES if known == use), what, int(number), int(value), site)
