"""Exercises and their checkers: what a learner wrote is run, watched, and judged in words."""

from __future__ import annotations

from partkit.labs.ring import check_ring as check_ring
from partkit.labs.verdict import Finding as Finding
from partkit.labs.verdict import Verdict as Verdict
