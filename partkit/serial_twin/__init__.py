"""Same as serial: a parallel run beside the same run in one process. Equal or not, and if not, where first and why.

file        idea
evidence    what a run notes: loss, outputs, gradients, weights; of a rank perhaps only a part, with where it belongs
compare     evidence of all ranks + evidence of one process -> differences; pure
hints       a difference -> the usual mistake behind it, in words; pure
report      the differences as a badge, as data, as true or false
run         `same_as_serial`: both runs, then all of the above
"""

from partkit.serial_twin.compare import Difference as Difference
from partkit.serial_twin.evidence import Note as Note
from partkit.serial_twin.evidence import Piece as Piece
from partkit.serial_twin.report import Report as Report
from partkit.serial_twin.run import same_as_serial as same_as_serial

__all__ = ["Difference", "Note", "Piece", "Report", "same_as_serial"]
