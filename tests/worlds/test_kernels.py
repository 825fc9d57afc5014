"""Notebook kernels: functions from cells, the stop button, restarts and violent ends. Each in a real kernel."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_core.utils import ensure_event_loop

from tests.worlds.kernels import Kernel, gone, kernel

pytestmark = pytest.mark.live

BEGIN = """
import os, signal, time, threading, torch, partkit as pk
w = pk.World(2)
def total(comm):
    return pk.all_reduce(torch.ones(1), comm).item()
"""
BUSY = {
    "busy in Python": "def busy(comm):\n    print('begun')\n    while True: pass",
    "waiting in gloo": "def busy(comm):\n    print('begun')\n    if comm.rank: time.sleep(600)\n    comm.recv(torch.ones(1), 1)",
    "deaf to signals": (
        "def busy(comm):\n    for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n    print('begun')\n"
        "    while True:\n        try: time.sleep(600)\n        except BaseException: pass"
    ),
    "asleep": "def busy(comm):\n    print('begun')\n    time.sleep(60)",
}


@pytest.fixture(scope="module", autouse=True)
def _event_loop() -> None:
    """The client of a kernel makes one for this thread when it is first used, and keeps it: that is no leak of the first test."""
    ensure_event_loop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel(str(tmp_path_factory.mktemp("kernel"))) as running:
        running.run(BEGIN)
        yield running


def test_case_L01_functions_of_cells_travel_with_what_they_use(shared: Kernel) -> None:
    shared.run("def f(comm): return comm.rank * 10")
    assert shared.run("print(list(w.run(f)))") == "[0, 10]\n"
    assert shared.run("k = 3\nprint(list(w.run(lambda comm: comm.rank * k)))") == "[0, 3]\n"
    shared.run("import math\ndef helper(x): return math.floor(x) + k")
    assert shared.run("def make(n):\n    return lambda comm: helper(comm.rank + n)\nprint(list(w.run(make(0.5))))") == "[3, 4]\n"
    shared.run("def f(comm): return -1")
    assert shared.run("print(list(w.run(f)))") == "[-1, -1]\n"


def test_case_L01_a_lock_is_named_before_anything_starts(shared: Kernel) -> None:
    cell = shared.start("guard = threading.Lock()\nw.run(lambda comm: guard.acquire())").over()
    assert cell.error is not None
    assert cell.error.startswith("TypeError: <lambda> can't be sent to the ranks: the captured variable 'guard' is a _thread.lock, which can't be pickled")


def test_an_error_shows_the_cell_s_own_lines(shared: Kernel) -> None:
    cell = shared.start("def fails(comm):\n    x = comm.rank\n    raise ValueError('boom')\nw.run(fails)").over()
    assert cell.error is not None and cell.error.startswith("RankError: ranks 0-1: ValueError: boom\nTraceback (most recent call last):\n  Cell In[")
    assert "], line 3, in fails\n    raise ValueError('boom')" in cell.error


def test_sites_of_events_are_cells_and_lines(shared: Kernel) -> None:
    out = shared.run("x = 0\nw.run(lambda comm: pk.all_reduce(torch.ones(1), comm) and None)\nprint(*{e.site for e in w.trace.events if e.kind == 'send'})")
    assert out.startswith("In [") and out.strip().endswith("]:2")


def test_case_H05_in_a_persistent_session(shared: Kernel) -> None:
    cell = shared.start("def step(comm):\n    if comm.rank == 1: raise ValueError('boom')\n    return total(comm)\nw.run(step)").over()
    assert cell.error is not None and cell.error.startswith("RankError: rank 1: ValueError: boom\n") and "(rank 0 stopped because of this)" in cell.error
    assert shared.run("print(list(w.run(total)))") == "[2.0, 2.0]\n"


@pytest.mark.parametrize("what", BUSY)
def test_case_L06_L07_the_stop_button(shared: Kernel, what: str) -> None:
    shared.run(BUSY[what])
    pids = shared.pids()
    cell = shared.start("w.run(busy)").until(lambda cell: "begun" in cell.stdout + cell.stderr)
    pressed = time.monotonic()
    shared.manager.interrupt_kernel()
    cell.over()
    took = time.monotonic() - pressed
    assert cell.error is not None and cell.error.startswith("KeyboardInterrupt: ")
    assert took < 10, f"the stop button took {took:.1f} s"  # 2 s on an idle machine; not a measurement
    assert shared.run("print(list(w.run(total)))") == "[2.0, 2.0]\n"
    if what == "deaf to signals":
        assert "did not stop when told" in cell.error and gone(pids, within=10)
    else:
        assert shared.pids() == pids


def test_case_L09_the_environment_stays_as_it_is(shared: Kernel) -> None:
    out = shared.run(
        "before = dict(os.environ)\nwith pk.World(2) as v: v.run(total)\n"
        "print(dict(os.environ) == before, [n for n in os.environ if n in ('RANK', 'WORLD_SIZE') or n.startswith('MASTER')])"
    )
    assert out == "True []\n"


def test_a_world_may_be_closed_and_another_opened_in_one_kernel(shared: Kernel) -> None:
    assert shared.run("v = pk.World(2)\npids = v.pids\nv.close()\nprint(v, len(pids))") == "World(2, closed) 2\n"
    cell = shared.start("v.run(total)").over()
    assert cell.error == "RuntimeError: this world is closed; start a new one: World(n)"


def test_two_worlds_run_at_once(shared: Kernel) -> None:
    assert (
        shared.run("with pk.World(3) as v:\n    runs = v.start(total), w.start(total)\n    print(*[list(run.wait()) for run in runs])")
        == "[3.0, 3.0, 3.0] [2.0, 2.0]\n"
    )


def test_case_L05_a_training_step_before_and_inside(shared: Kernel) -> None:
    shared.run(
        "def loss_of(seed):\n    torch.manual_seed(seed)\n    model = torch.nn.Linear(600, 600)\n    loss = model(torch.ones(600, 600)).pow(2).mean()\n"
        "    loss.backward()\n    return round(loss.item() + model.weight.grad.sum().item(), 4)\nserial = loss_of(1)"
    )
    assert shared.run("print([x == serial for x in w.run(lambda comm: loss_of(1))], loss_of(1) == serial)") == "[True, True] True\n"


def test_case_L11_lines_of_a_run_arrive_while_it_goes_on_and_in_order(shared: Kernel, tmp_path: Path) -> None:
    """The ranks wait for a file that is made once their first line has been seen."""
    flag = tmp_path / "go on"
    shared.run(
        f"def talk(comm):\n    print('a', comm.rank)\n    os.write(1, b'c\\n')\n    os.write(2, b'e\\n')\n"
        f"    while not os.path.exists({str(flag)!r}): time.sleep(0.01)\n    print('b', comm.rank)"
    )
    cell = shared.start("w.run(talk)\nNone").until(lambda cell: "[0] a 0" in cell.stdout)
    flag.touch()
    cell.over()
    texts = {(cell.stdout, cell.stderr)}
    for _ in range(4):
        again = shared.start("w.run(talk)\nNone").over()
        texts.add((again.stdout, again.stderr))
    assert texts == {("[0] a 0\n[0] c\n[0] b 0\n[1] a 1\n[1] c\n[1] b 1\n", "[0!] e\n[1!] e\n")}


# -- the end of a kernel ---------------------------------------------------------------------------------------------


def end_kernel_while(how: str, what: str, folder: Path) -> None:
    with kernel(str(folder)) as running:
        running.run(BEGIN + BUSY[what])
        server = int(running.run("from partkit.worlds.forkserver import FORK_SERVER\nprint(FORK_SERVER.pid)"))
        pids = [*running.pids(), server]
        rendezvous = Path(running.run("print(w._folder)").strip())
        assert rendezvous.is_dir()
        running.start("w.run(busy)").until(lambda cell: "begun" in cell.stdout + cell.stderr)
        if how == "killed":
            os.kill(running.manager.provisioner.pid, signal.SIGKILL)
        else:
            running.manager.restart_kernel(now=True)
            running.client.wait_for_ready(timeout=60)
        assert gone(pids, within=5), f"ranks outlived a kernel that was {how}, {what}"
        assert not rendezvous.exists()
        if how == "restarted":
            running.run(BEGIN)
            assert running.run("print(list(w.run(total)))") == "[2.0, 2.0]\n"


@pytest.mark.parametrize("what", ["busy in Python", "waiting in gloo", "deaf to signals"])
def test_case_L08_no_rank_outlives_a_kernel_that_is_killed(what: str, tmp_path: Path) -> None:
    end_kernel_while("killed", what, tmp_path)


def test_case_L08_no_rank_outlives_a_kernel_that_is_restarted(tmp_path: Path) -> None:
    end_kernel_while("restarted", "waiting in gloo", tmp_path)
