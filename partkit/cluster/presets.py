"""Clusters to try things on: ``pk.clusters``. Peaks from public data sheets, not measurements; `Device.efficiency` is yours to set.

    name            what                                                                      devices, links
    LAPTOP          a core a rank to compute, messages by TCP on two cores                    `LAPTOP_CORE`, `LOOPBACK`
    H100_NODES      8 H100 SXM a node by NVLink, one 400 Gb/s port a GPU between nodes        [1]  [2]
    A100_NODES      8 A100 SXM 80 GB a node by NVLink, one 200 Gb/s port a GPU                [3]  [4]
    tpu_v4(x,y,z)   a torus of TPU v4 chips                                                   [5]  [6]
    VOLUNTEERS      a T4 at each home, 200 Mb/s and 50 ms between homes                       [7]  [8]
    SPOT_VMS        one V100 a machine, 10 Gb/s between machines that may be taken away       [9]  [10]

[1] NVIDIA H100 Tensor Core GPU data sheet, column SXM.
[2] NVIDIA DGX H100 user guide, network modules: eight single-port ConnectX-7 of 400 Gb/s, one for each GPU.
[3] NVIDIA A100 Tensor Core GPU data sheet, column 80 GB SXM.
[4] NVIDIA DGX A100 data sheet: eight single-port ConnectX-6 of 200 Gb/s, one for each GPU.
[5] Google Cloud, "TPU v4", system architecture, table of key specifications.
[6] Jouppi et al. 2023, "TPU v4: an optically reconfigurable supercomputer for machine learning", table 4.
[7] NVIDIA T4 Tensor Core GPU data sheet.
[8] Ryabinin et al. 2023, "SWARM parallelism": preemptible T4 instances with less than 200 Mb/s.
[9] NVIDIA V100 Tensor Core GPU data sheet, column SXM2.
[10] Athlur et al. 2022, "Varuna": low-priority VMs, 10 Gb/s Ethernet.

Where each figure is from stands below the device or the cluster that uses it. Three kinds are nobody's: all **latencies** are round numbers
(2 us for NVLink, 5 us for RDMA, 30 us for TCP in a data centre, 50 ms between homes, 1 us for a hop of a torus), since data sheets give
none; NVLink's bandwidth is that **to any one peer**, as an NVSwitch gives it, half of the sum of both directions in the data sheet; and a rate
for a dtype that a data sheet leaves out is said to be an **assumption**. For your own machines measure: `partkit.CostExplorer.measure`.
"""

from __future__ import annotations

from partkit.cluster.hardware import Cluster, Device, Link
from partkit.cluster.topology import Islands, Torus

H100 = Device({"float64": 67e12, "float32": 67e12, "bfloat16": 989e12, "float16": 989e12}, 80e9, 3.35e12, "H100 SXM")
"""All from [1]: float64 on tensor cores (34 TFLOP/s without them), float32 without them, 16 bits on them and dense (half of the 1979 with
sparsity), 80 GB at 3.35 TB/s."""

A100 = Device({"float64": 19.5e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}, 80e9, 2.039e12, "A100 SXM 80 GB")
"""All from [3]: float64 on tensor cores (9.7 TFLOP/s without them), float32 without them, 16 bits on them and dense, 80 GB at 2039 GB/s."""

TPU_V4 = Device({"float32": 137.5e12, "bfloat16": 275e12}, 32 * 2**30, 1.2e12, "TPU v4")
"""From [5]: bfloat16, 32 GiB at 1200 GB/s. The rate of float32, half of that, is an assumption: no source gives one."""

T4 = Device({"float32": 8.1e12, "float16": 65e12}, 16e9, 320e9, "T4")
"""From [7]: float32, float16 on tensor cores, 16 GB. Its memory bandwidth is 320 GB/s (a bus of 256 bits at 10 Gb/s); some data sheets
round it to 300."""

V100 = Device({"float64": 7.8e12, "float32": 15.7e12, "float16": 125e12}, 16e9, 900e9, "V100")
"""From [9]: float64 and float32, float16 on tensor cores, 16 GB at 900 GB/s. Boards for PCIe reach 7, 14 and 112 TFLOP/s."""

LAPTOP = Cluster(name="laptop")
"""Round numbers of this project: `partkit.cluster.LAPTOP_CORE`, `partkit.cluster.LOOPBACK`."""

H100_NODES = Cluster(H100, Link(5e-6, 50e9), Islands((8, Link(2e-6, 450e9))), name="8 x H100 a node")
"""Between nodes 400 Gb/s a GPU [2]; inside half of NVLink's 900 GB/s in both directions [1]. Latencies are round numbers."""

A100_NODES = Cluster(A100, Link(5e-6, 25e9), Islands((8, Link(2e-6, 300e9))), name="8 x A100 a node")
"""Between nodes 200 Gb/s a GPU [4]; inside half of NVLink's 600 GB/s in both directions [3]. Latencies are round numbers."""

VOLUNTEERS = Cluster(T4, Link(50e-3, 25e6), name="volunteers, 200 Mb/s")
"""200 Mb/s [8], which is the most of what was seen there. The latency is a round number."""

SPOT_VMS = Cluster(V100, Link(30e-6, 1.25e9), name="spot VMs, 10 Gb/s")
"""10 Gb/s [10]. The latency is a round number. To have machines taken away: `partkit.cluster.Death` among its conditions."""


def tpu_v4(*shape: int) -> Cluster:
    """TPU v4 chips on a torus of this shape.

    Links of 50 GB/s, six a chip [6], of which the one-port model uses one at a time; the latency of a hop is a round number.

    Example:
        >>> tpu_v4(4, 4, 4).between(0, 1).bandwidth
        50000000000.0
    """
    hop = Link(1e-6, 50e9)
    return Cluster(TPU_V4, hop, Torus(shape, hop), name=f"TPU v4 torus {' x '.join(map(str, shape))}")
