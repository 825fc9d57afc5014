"""Exercises and their checkers: what a learner wrote is run, watched, and judged in words.

file              idea
marks             numbers that say whose data they are
trial             one attempt: run, live or simulated; it always ends
traffic           what it sent: messages, bytes, receivers, steps
rules             what may be held against that
exercise          an exercise as data, and the judge
verdict           true or false, with reasons in words

ring              notebook 01: all-reduce round a ring
tree              notebook 02: broadcast along a tree
all_gather        notebook 02: all-gather round a ring
reduce_scatter    notebook 02: reduce-scatter round a ring
all_to_all        notebook 02: all-to-all in pairs
doubling          notebook 03: all-reduce by recursive doubling
cost              notebook 03: the cost of an algorithm, as a formula
placement         notebook 04: a ring over nodes that crosses slow links least
slow_link         notebook 04: the time of a ring with one slow link
straggler         notebook 04: the rank that all others wait for, from a trace
clinic            notebook 04b: ten programs that hang or fail, to be diagnosed
"""

from __future__ import annotations

from partkit.labs.all_gather import check_all_gather as check_all_gather
from partkit.labs.all_to_all import check_all_to_all as check_all_to_all
from partkit.labs.bubble import check_bubble as check_bubble
from partkit.labs.cost import check_cost as check_cost
from partkit.labs.doubling import check_doubling as check_doubling
from partkit.labs.one_f_one_b import check_one_f_one_b as check_one_f_one_b
from partkit.labs.placement import check_placement as check_placement
from partkit.labs.reduce_scatter import check_reduce_scatter as check_reduce_scatter
from partkit.labs.ring import check_ring as check_ring
from partkit.labs.slow_link import check_slow_link as check_slow_link
from partkit.labs.straggler import check_straggler as check_straggler
from partkit.labs.tree import check_broadcast as check_broadcast
from partkit.labs.verdict import Finding as Finding
from partkit.labs.verdict import Verdict as Verdict
from partkit.labs.wire import bytes_received as bytes_received
from partkit.labs.zb_h1 import check_zb_h1 as check_zb_h1
