"""What all tests share: a pool of live ranks for the session, seeds, and the check that a test leaves nothing behind."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest

from tests.leaks import SETTLE, Snapshot, difference, marked_processes, settled, snapshot

if TYPE_CHECKING:
    from partkit.worlds.simulated import SimulatedWorld
    from partkit.worlds.world import World

SESSION = "PARTKIT_TEST_SESSION"
"""Every process that descends from this session carries this variable, even when it has left the process tree."""
OUTSIDE = "PARTKIT_TEST_OUTSIDE"
"""Where sessions, and their workers, make their folders: side by side, since the path of a socket has room for about 100 characters."""


def pytest_configure(config: pytest.Config) -> None:
    """No test is timed; kernels that tests start draw statically, know nothing of this user's configuration, and leave files only in our folder."""
    hypothesis.settings.register_profile("untimed", parent=hypothesis.settings(), deadline=None)
    hypothesis.settings.load_profile("untimed")
    if not is_worker(config):
        os.environ[SESSION] = uuid.uuid4().hex
        os.environ[OUTSIDE] = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="partkit-tests-", dir=os.environ[OUTSIDE])
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["PARTKIT_STATIC"] = "1"
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR"):
        os.environ[name] = os.path.join(folder, name.lower())
        os.makedirs(os.environ[name], mode=0o700)
    tempfile.tempdir = None  # it is read from TMPDIR again


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is one of several among which the tests are shared out."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """No process outlives the session: not a kernel of a notebook test, not a rank that such a kernel started."""
    import psutil

    if "partkit.worlds.forkserver" in sys.modules:
        sys.modules["partkit.worlds.forkserver"].FORK_SERVER.stop()
    if is_worker(session.config):
        return  # others still work; who has started them looks in the end
    servers = snapshot().servers  # the resource tracker of multiprocessing leaves when this process does
    suspects = [process for process in marked_processes(SESSION, os.environ[SESSION]) if process.pid not in servers]
    _, left = psutil.wait_procs(suspects, timeout=SETTLE)
    if left:
        print(f"\nprocesses that outlived the tests: {', '.join(map(str, left))}", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


# -- live ranks ------------------------------------------------------------------------------------------------------


class Pool:
    """Worlds that the tests of a session share, by number of ranks. Whoever gets one gets it healthy."""

    def __init__(self) -> None:
        self._worlds: dict[int, World] = {}
        self.took = Snapshot()
        """What starting worlds took; the leak check lets that be."""

    def __call__(self, size: int) -> World:
        world = self._worlds.get(size)
        if world is None or not healthy(world):
            self._start(size)
        return self._worlds[size]

    def _start(self, size: int) -> None:
        from partkit.worlds.world import World

        before = snapshot()
        if size in self._worlds:
            self._worlds.pop(size).close()
        world = self._worlds[size] = World(size)
        assert healthy(world)
        new = difference(before, snapshot())
        self.took = Snapshot(
            threads=self.took.threads + new.threads,
            descriptors=self.took.descriptors + new.descriptors,
            folders=self.took.folders | new.folders,
        )

    def pids(self) -> set[int]:
        """The ranks' processes, as they are now: a world replaces ranks that have died."""
        return {pid for world in self._worlds.values() for pid in world.pids}

    def close(self) -> None:
        for world in self._worlds.values():
            world.close()


def healthy(world: World) -> bool:
    """Whether all ranks are there and answer."""
    if world.closed or world.busy:
        return False
    return list(world.run(_own_rank)) == list(range(world.size))


def _own_rank(comm: object) -> int:
    rank: int = comm.rank  # type: ignore[attr-defined]
    return rank


@pytest.fixture(scope="session")
def _pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture
def live_world(_pool: Pool) -> Callable[[int], World]:
    """``live_world(n)``: n live ranks, shared by the tests of the session, healthy."""
    return _pool


@pytest.fixture
def world4(_pool: Pool) -> World:
    """Four live ranks, shared by the tests of the session, healthy."""
    return _pool(4)


@pytest.fixture
def simulated_world() -> Callable[..., SimulatedWorld]:
    """``simulated_world(n, link=LINK)``: n simulated ranks, the same link between any two. More: `tests.simulated`."""
    from partkit.cluster import Cluster
    from partkit.worlds.simulated import SimulatedWorld
    from tests.simulated import LINK

    return lambda size, link=LINK: SimulatedWorld(size, Cluster(link=link))


# -- every test ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(_pool: Pool) -> Iterator[None]:
    """Processes, threads, descriptors, temporary folders, environment, directory and signal handlers stay as they were."""
    before, took = snapshot(), _pool.took
    yield
    new = Snapshot(threads=_pool.took.threads - took.threads, descriptors=_pool.took.descriptors - took.descriptors, folders=_pool.took.folders - took.folders)
    found = settled(before, new, _pool.pids())
    assert not found, "this test left behind:\n  " + "\n  ".join(found)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """The same random numbers in every test, in whatever order tests run. torch only if the test has loaded it."""
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return Path(__file__).resolve().parents[1]
