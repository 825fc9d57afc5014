"""Starting ranks: how many, from where, again and again, on odd machines; and what is left when they end."""

from __future__ import annotations

import ast
import gc
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import partkit
from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.mesh import Mesh
from partkit.worlds import forkserver
from partkit.worlds.forkserver import FORK_SERVER
from partkit.worlds.sockets import shut_down_connections
from partkit.worlds.world import World
from tests.worlds.failing import total, works

pytestmark = pytest.mark.live
Live = Callable[[int], World]
PACKAGE = Path(partkit.__file__).parent


def script(source: str, *prefix: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    command = [*prefix, sys.executable, "-W", "error", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


RUN_TWO = "import torch, partkit as pk\nwith pk.World(2) as w: print(list(w.run(lambda c: pk.all_reduce(torch.ones(1), c).item())))"


# -- how many --------------------------------------------------------------------------------------------------------


def test_case_L15_one_rank_is_one_process(live_world: Live) -> None:
    live_world(1).run(total)
    before = len(psutil.Process(FORK_SERVER.pid).children())
    with World(1) as world:
        assert len(world.pids) == 1 and list(world.run(total)) == [1.0]
        assert len(psutil.Process(FORK_SERVER.pid).children()) == before + 1


@pytest.mark.parametrize("size", [0, -1, 2.0, "4", True, None])
def test_a_world_has_a_whole_number_of_ranks(size: Any) -> None:
    with pytest.raises(ValueError, match="give the number of ranks, at least 1, or a Mesh"):
        World(size)


def test_the_number_of_ranks_may_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_MAX_RANKS", "3")
    with pytest.raises(ValueError, match=r"World\(4\): at most 3 ranks here \(PARTKIT_MAX_RANKS is set to 3\)"):
        World(4)


def test_thirty_two_ranks_start_and_meet() -> None:
    with World(32) as world:
        assert list(world.run(lambda comm: all_reduce(torch.tensor([comm.rank]), comm).item())) == [496] * 32


def test_a_mesh_gives_every_rank_its_groups() -> None:
    with World(Mesh(dp=2, tp=2)) as world:
        assert world.size == 4 and repr(world) == "World(Mesh(dp=2, tp=2), idle)"
        sums = world.run(lambda comm: [all_reduce(torch.tensor(comm.rank), comm.group(axis)).item() for axis in ("dp", "tp")])
        assert list(sums) == [[2, 1], [4, 1], [2, 5], [4, 5]]


def test_case_L10_twenty_worlds_leave_nothing_open(live_world: Live) -> None:
    live_world(1)
    before = psutil.Process().num_fds()
    for size in [2, 3, 1, 2] * 5:
        with World(size) as world:
            assert list(world.run(total)) == [float(size)] * size
    assert psutil.Process().num_fds() - before < 10


def test_a_world_that_nobody_holds_any_more_ends_its_ranks() -> None:
    world = World(2)
    world.run(total)
    processes = [psutil.Process(pid) for pid in world.pids]
    del world
    gc.collect()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


# -- from where ------------------------------------------------------------------------------------------------------


def test_case_L02_L03_nothing_forks_the_kernel() -> None:
    """The only fork is that of the fork server, which holds no threads and no GPU; multiprocessing is used for its pipes alone."""
    forks, multiprocessing = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("fork", "forkpty") and isinstance(node.value, ast.Name) and node.value.id == "os":
                forks.append(path.name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("multiprocessing"):
                multiprocessing |= {alias.name for alias in node.names}
    assert forks == ["forkserver.py"] and multiprocessing == {"Connection"}
    assert "os.fork" not in Path(forkserver.__file__).read_text().split("def serve")[0]


def test_case_L03_importing_partkit_initialises_nothing() -> None:
    out = script(
        "import sys, torch, partkit\nfor name in partkit.__all__: getattr(partkit, name)\n"
        "print(torch.cuda.is_initialized(), 'torchvision' in sys.modules, 'transformers' in sys.modules)"
    )
    assert out == "False False False\n"


def test_case_L04_threaded_maths_before_and_inside(live_world: Live) -> None:
    torch.randn(600, 600) @ torch.randn(600, 600)
    assert list(live_world(2).run(lambda comm: float((torch.ones(600, 600) @ torch.ones(600, 600))[0, 0]))) == [600.0, 600.0]


def test_ranks_see_the_kernel_s_directory_path_and_environment(live_world: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = live_world(2)
    (tmp_path / "written_just_now.py").write_text("value = 7")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def look(comm: Communicator) -> tuple[str, int, str]:
        import written_just_now  # type: ignore[import-not-found]

        return os.getcwd(), written_just_now.value, os.environ["WORLD_SIZE"]

    assert list(world.run(look)) == [(str(tmp_path), 7, "2")] * 2


def test_a_directory_that_is_gone_is_an_error_in_words(live_world: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = live_world(2)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(RuntimeError, match="the notebook's working directory has been removed"):
        world.run(total)
    monkeypatch.chdir(tmp_path)
    assert works(world)


def test_a_new_world_has_the_present_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTKIT_TEST_VARIABLE", "set just now")
    with World(1) as world:
        assert list(world.run(lambda comm: os.environ["PARTKIT_TEST_VARIABLE"])) == ["set just now"]


# -- ports and neighbours --------------------------------------------------------------------------------------------


def test_case_L09_an_occupied_port_disturbs_nobody(live_world: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as dummy:
        dummy.bind(("127.0.0.1", 0))
        dummy.listen()
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(dummy.getsockname()[1]))
        before = dict(os.environ)
        with World(2) as world:
            assert works(world)
        assert dict(os.environ) == before


def test_case_L09_worlds_that_start_at_the_same_moment_do_not_meet() -> None:
    found: list[list[float]] = []

    def start() -> None:
        for _ in range(5):
            with World(2) as world:
                found.append(list(world.run(total)))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[2.0, 2.0]] * 10


def test_case_L14_ranks_listen_on_the_loopback_interface_only(live_world: Live) -> None:
    def listening(comm: Communicator) -> list[str]:
        all_reduce(torch.ones(1), comm, algorithm="native")
        torch.distributed.all_reduce(torch.ones(1))
        here = "/proc/self/fd"
        mine = {os.readlink(f"{here}/{fd}")[8:-1] for fd in os.listdir(here) if os.path.islink(f"{here}/{fd}")}
        rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
        return [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in mine]

    for addresses in live_world(2).run(listening):
        assert set(addresses) <= {"0100007F"}, f"a rank listens on {addresses}"


def test_case_L14_without_libuv() -> None:
    assert script(RUN_TWO, USE_LIBUV="0") == "[2.0, 2.0]\n"


def may(*command: str) -> bool:
    """Whether this machine lets the test do that."""
    return bool(shutil.which(command[0])) and subprocess.run(command, capture_output=True).returncode == 0


def test_case_L14_L16_a_host_name_that_does_not_resolve_and_hardly_any_shared_memory() -> None:
    """In a namespace of its own where that is permitted; otherwise, that shared memory is not used at all."""
    big = RUN_TWO.replace(": print", ":\n    print") + "\n    print([x.sum().item() for x in w.run(lambda c: torch.ones(3_000_000))])"
    if may("unshare", "-u", "-m", "true"):
        odd = 'hostname no.such.host && mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" "$@"'
        assert script(big, "unshare", "-u", "-m", "sh", "-c", odd) == "[2.0, 2.0]\n[3000000.0, 3000000.0]\n"
    else:
        look = big + "\n    import os; print(w.run(lambda c: [m for m in open('/proc/self/maps') if '/dev/shm' in m]))"
        assert script(look).endswith("[[], []]\n")


def test_case_L16_nothing_large_is_left_in_shared_memory(live_world: Live) -> None:
    tensors = live_world(2).run(lambda comm, x: x + comm.rank, torch.ones(3_000_000))
    assert [x.sum().item() for x in tensors] == [3e6, 6e6]


# -- the fork server -------------------------------------------------------------------------------------------------


def test_a_fork_server_that_was_killed_is_replaced() -> None:
    """Ranks that lived with it are replaced as well: nobody would report their end."""
    with World(2) as world:
        assert works(world)
        server, ranks = psutil.Process(FORK_SERVER.pid), [psutil.Process(pid) for pid in world.pids]
        server.kill()
        psutil.wait_procs([server], timeout=20)
        assert world._collector.changed.wait_for(lambda: not any(p.alive for p in world._processes), timeout=20)
        assert works(world) and FORK_SERVER.pid not in (None, server.pid)
        _, alive = psutil.wait_procs(ranks, timeout=20)
        assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_ranks_are_polite_and_single_threaded_in_a_session_of_their_own(live_world: Live) -> None:
    def manners(comm: Communicator) -> tuple[bool, int, bool]:
        return os.nice(0) > 0, torch.get_num_threads(), os.getsid(0) == os.getpid()

    assert list(live_world(2).run(manners)) == [(True, 1, True)] * 2


def test_spawn_gives_the_same_ranks_more_slowly() -> None:
    with World(2, start_method="spawn") as world:
        assert works(world)
        with pytest.raises(RuntimeError, match=r"rank 1 ended without a result \(exit code 3\)"):
            world.run(lambda comm: os._exit(3) if comm.rank else None)
        assert works(world)


def test_shutting_down_connections_leaves_strangers_alone() -> None:
    a, b = socket.socketpair()
    with a, b, socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
        assert shut_down_connections([1, os.getpid()]) == 0
        client.sendall(b"x")
        a.sendall(b"x")
        assert accepted.recv(1) == b.recv(1) == b"x"


# -- notebooks under test --------------------------------------------------------------------------------------------


def test_case_L17_a_notebook_of_two_cells_passes_under_nbval_and_nbclient(tmp_path: Path) -> None:
    import nbformat

    cells = [RUN_TWO.replace("with pk.World(2) as w: ", "w = pk.World(2)\n"), "w.close()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    path = tmp_path / "two_cells.ipynb"
    nbformat.write(notebook, path)
    execute = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)]
    check = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", str(path), "-c", os.devnull]
    for command in (execute, check):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    first, second = nbformat.read(path, as_version=4).cells
    assert first.outputs[0].text == "[2.0, 2.0]\n" and second.outputs == []
