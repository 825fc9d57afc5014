"""In how many segments a tensor should travel through a pipeline of ranks. Algorithm and cost both ask here.

A chain of p ranks with s segments: the first segment needs p - 1 hops to the end, the others follow one hop behind each other:

    hop           0 -> 1    1 -> 2    2 -> 3
    step  1        s0
          2        s1        s0
          3        s2        s1        s0               p - 2 steps to fill the pipeline, then one for each segment:
          4                  s2        s1               (p - 2 + s) (alpha + n / (s beta))
          5                            s2

Few segments leave the later links idle for long, many cost many latencies; least is s = sqrt((p - 2) n / (alpha beta)).

Reference: Watts and van de Geijn 1995, "A pipelined broadcast for multidimensional meshes", Parallel Processing Letters 5.
"""

from __future__ import annotations

from math import floor, inf, sqrt

from partkit.cluster.hardware import Link


def num_segments(numel: int, itemsize: int, fill: int, link: Link) -> int:
    """The whole s from 1 to ``numel`` that makes ``(fill + s) (alpha + n / (s beta))`` smallest.

    Args:
        numel: elements of the tensor.
        itemsize: bytes of an element.
        fill: steps until the last link has something to do: p - 2 for a chain of p ranks.
        link: of every hop. Without latency every element travels alone.

    Example:
        >>> num_segments(1_000_000, 4, fill=2, link=Link(latency=1e-4, bandwidth=1e9))
        9
    """
    nbytes, alpha_beta = numel * itemsize, link.latency * link.bandwidth
    best = sqrt(max(fill, 0) * nbytes / alpha_beta) if alpha_beta else inf if fill > 0 else 1.0
    fewer, most = max(1, floor(min(best, numel))), max(1, numel)
    return min((fewer, min(fewer + 1, most)), key=lambda s: (fill + s) * link.seconds(nbytes / s))
