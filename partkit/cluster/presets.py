"""Clusters to try things on, round numbers from public data sheets: peaks, not measurements; `Device.efficiency` is yours to set.

    name            what                                                                      sources
    LAPTOP          one core a rank, TCP on the same machine                                  `LAPTOP_CORE`, `LOOPBACK`
    H100_NODES      8 H100 SXM a node by NVLink, one 400 Gb/s port a GPU between nodes        [1]
    A100_NODES      8 A100 SXM 80 GB a node by NVLink, one 200 Gb/s port a GPU                [2]
    tpu_v4(x,y,z)   a torus of TPU v4 chips                                                   [3]
    VOLUNTEERS      a T4 at each home, 200 Mb/s and 50 ms between homes                       [4]
    SPOT_VMS        one V100 a machine, 10 Gb/s between machines that may be taken away       [5]

[1] NVIDIA H100 Tensor Core GPU data sheet (SXM5): 67 TFLOP/s float32, 989 TFLOP/s bfloat16 dense, 80 GB at 3.35 TB/s, NVLink 900 GB/s
    in both directions together; ConnectX-7: 400 Gb/s.
[2] NVIDIA A100 data sheet (SXM 80 GB): 19.5 TFLOP/s float32, 312 TFLOP/s bfloat16 dense, 2.04 TB/s, NVLink 600 GB/s in both
    directions together; ConnectX-6: 200 Gb/s.
[3] Jouppi et al. 2023, "TPU v4: an optically reconfigurable supercomputer", table 4: 275 TFLOP/s bfloat16, 32 GiB at 1.2 TB/s, six links of
    50 GB/s; one is used at a time in the one-port model.
[4] Ryabinin et al. 2023, "SWARM parallelism": preemptible T4 with less than 200 Mb/s; NVIDIA T4 data sheet: 8.1 TFLOP/s float32,
    65 TFLOP/s float16, 16 GB at 320 GB/s.
[5] Athlur et al. 2022, "Varuna": low-priority VMs, 10 Gb/s Ethernet; NVIDIA V100 data sheet: 15.7 TFLOP/s float32, 125 TFLOP/s float16,
    16 GB at 900 GB/s.

Latencies are round: 2 us for NVLink, 5 us for RDMA, 30 us for TCP in a data centre, 1 us for a hop of a torus.
"""

from __future__ import annotations

from partkit.cluster.hardware import Cluster, Device, Link
from partkit.cluster.topology import Islands, Torus

H100 = Device({"float64": 67e12, "float32": 67e12, "bfloat16": 989e12, "float16": 989e12}, 80e9, 3.35e12, "H100 SXM")
A100 = Device({"float64": 19.5e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}, 80e9, 2.04e12, "A100 SXM 80 GB")
TPU_V4 = Device({"float32": 137.5e12, "bfloat16": 275e12}, 32 * 2**30, 1.2e12, "TPU v4")
T4 = Device({"float32": 8.1e12, "float16": 65e12}, 16e9, 320e9, "T4")
V100 = Device({"float64": 7.8e12, "float32": 15.7e12, "float16": 125e12}, 16e9, 900e9, "V100")

LAPTOP = Cluster(name="laptop")
H100_NODES = Cluster(H100, Link(5e-6, 50e9), Islands((8, Link(2e-6, 450e9))), name="8 x H100 a node")
A100_NODES = Cluster(A100, Link(5e-6, 25e9), Islands((8, Link(2e-6, 300e9))), name="8 x A100 a node")
VOLUNTEERS = Cluster(T4, Link(50e-3, 25e6), name="volunteers, 200 Mb/s")
SPOT_VMS = Cluster(V100, Link(30e-6, 1.25e9), name="spot VMs, 10 Gb/s")


def tpu_v4(*shape: int) -> Cluster:
    """TPU v4 chips on a torus of this shape.

    Example:
        >>> tpu_v4(4, 4, 4).between(0, 1).bandwidth
        50000000000.0
    """
    hop = Link(1e-6, 50e9)
    return Cluster(TPU_V4, hop, Torus(shape, hop), name=f"TPU v4 torus {' x '.join(map(str, shape))}")
