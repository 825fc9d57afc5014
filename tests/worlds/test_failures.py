"""Ranks that raise, end or break in every way: one exception in the kernel, the guilty first, and the next run works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
import torch.distributed as dist

from partkit.collectives.all_reduce import all_reduce
from partkit.communicator import Communicator
from partkit.worlds.errors import MESSAGE_CHARS, RankDied, RankError, UnwaitedMessages
from partkit.worlds.world import World
from tests.worlds.failing import failure, works

pytestmark = pytest.mark.live
Live = Callable[[int], World]
ALGORITHMS = ("ring", "naive", "native")


# -- a rank raises ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_case_H05_the_guilty_rank_comes_first_and_its_victims_are_folded(world4: World, algorithm: str) -> None:
    def step(comm: Communicator, algorithm: Any) -> None:
        if comm.rank == 1:
            raise ValueError("boom")
        all_reduce(torch.ones(4), comm, algorithm=algorithm)

    error = failure(world4, step, algorithm)
    assert (type(error), error.ranks, error.suffered, error.killed) == (RankError, (1,), (0, 2, 3), ())
    first, second, third, code, *_ = str(error).splitlines()
    assert (first, second) == ("rank 1: ValueError: boom", "Traceback (most recent call last):")
    assert third.endswith(f'test_failures.py", line {step.__code__.co_firstlineno + 2}, in step') and code.strip() == 'raise ValueError("boom")'
    assert str(error).endswith("(ranks 0, 2-3 stopped because of this)")
    assert isinstance(error.__cause__, ValueError) and error.__cause__.args == ("boom",)


def test_case_H05_also_in_torch_s_own_collectives(live_world: Live) -> None:
    def step(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("boom")
        dist.all_reduce(torch.ones(4))

    error = failure(live_world(2), step)
    assert str(error).startswith("rank 1: ValueError: boom\n") and error.suffered == (0,)


def test_equal_errors_are_merged_unequal_ones_listed(world4: World) -> None:
    def step(comm: Communicator) -> None:
        raise KeyError("left" if comm.rank < 2 else "right")

    assert str(failure(world4, lambda comm: 1 / 0)).startswith("ranks 0-3: ZeroDivisionError: division by zero\nTraceback")
    lines = str(failure(world4, step)).splitlines()
    assert lines[:3] == ["ranks 0-1: KeyError: 'left'", "ranks 2-3: KeyError: 'right'", "Traceback (most recent call last):"]


def test_a_chain_of_exceptions_is_shown_whole(live_world: Live) -> None:
    def load(comm: Communicator) -> None:
        try:
            [][comm.rank]
        except IndexError as problem:
            raise RuntimeError("no batch left") from problem

    text = str(failure(live_world(2), load))
    assert text.startswith("ranks 0-1: RuntimeError: no batch left\n")
    assert "IndexError: list index out of range\n\nThe above exception was the direct cause" in text
    assert "partkit/worlds" not in text


class Odd(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def of_a_local_class(comm: Communicator) -> None:
    class HandMade(Exception):
        pass

    raise HandMade("local")


def that_holds_a_lock(comm: Communicator) -> None:
    error = ValueError("with a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


def whose_cause_is_odd(comm: Communicator) -> None:
    class Cause(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("never")

    raise ValueError("the effect") from Cause("the cause")


def with_a_note(comm: Communicator) -> None:
    error = ValueError("noted")
    error.__notes__ = ["a note", "another"]  # type: ignore[attr-defined]
    raise error


def whose_text_breaks(comm: Communicator) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    raise Broken


def without_a_text(comm: Communicator) -> None:
    raise ValueError


def of_several_lines(comm: Communicator) -> None:
    raise ValueError("first line\nsecond line")


def too_deep(comm: Communicator) -> None:
    too_deep(comm)


def a_long_chain(comm: Communicator) -> None:
    error: Exception = ValueError("0")
    for i in range(1, 600):
        try:
            raise ValueError(str(i)) from error
        except ValueError as caught:
            error = caught
    raise error


def in_the_source(comm: Communicator) -> None:
    eval("1 +")


def that_looks_like_a_lost_connection(comm: Communicator) -> None:
    raise RuntimeError("[remote] Connection closed by peer")


def keyboard(comm: Communicator) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fn", "first", "inside"),
    [
        (of_a_local_class, "HandMade: local", "HandMade: local"),
        (lambda comm: (_ for _ in ()).throw(Odd(1, 2)), "Odd: 1 and 2", "test_failures.py"),
        (that_holds_a_lock, "ValueError: with a lock", "raise error"),
        (whose_cause_is_odd, "ValueError: the effect", "Cause: the cause"),
        (with_a_note, "ValueError: noted", "a note\nanother"),
        (whose_text_breaks, "exception str() failed", "Broken"),
        (without_a_text, "ValueError", "raise ValueError"),
        (of_several_lines, "ValueError: first line", "second line"),
        (too_deep, "RecursionError: maximum recursion depth exceeded", "[Previous line repeated"),
        (a_long_chain, "ValueError", "ValueError"),
        (in_the_source, "SyntaxError: invalid syntax", "1 +"),
        (that_looks_like_a_lost_connection, "RuntimeError: [remote] Connection closed by peer", "raise RuntimeError"),
        (keyboard, "KeyboardInterrupt", "raise KeyboardInterrupt"),
    ],
)
def test_every_kind_of_exception_arrives_in_words(live_world: Live, fn: Callable[[Communicator], Any], first: str, inside: str) -> None:
    error = failure(live_world(2), fn)
    text = str(error)
    assert text.startswith("ranks 0-1: ") and first in text.splitlines()[0], text[:500]
    assert inside in text, text[-1000:]
    assert (error.ranks, error.suffered) == ((0, 1), ())


def test_a_huge_message_is_cut(live_world: Live) -> None:
    def huge(comm: Communicator) -> None:
        raise ValueError("x" * 3_000_000 + "end")

    text = str(failure(live_world(2), huge))
    assert "2,996,003 characters not shown" in text and len(text) < 4 * MESSAGE_CHARS


def test_many_different_errors_are_not_all_listed() -> None:
    from partkit.worlds.errors import Failure, capture, rank_error

    failures = [Failure(rank, f"ValueError: {rank}", capture(rank, ValueError(str(rank)))[0], None) for rank in range(32)]
    lines = str(rank_error(failures)).splitlines()
    assert lines[:2] == ["rank 0: ValueError: 0", "rank 1: ValueError: 1"]
    assert lines[8] == "ranks 8-31: other errors"


def test_an_error_keeps_its_data_when_it_is_copied_or_sent_on() -> None:
    import pickle

    from partkit.diagnosis import Diagnosis
    from partkit.worlds.errors import ranks_stuck

    error = pickle.loads(pickle.dumps(ranks_stuck(Diagnosis("cycle", (0, 1), "a cycle"), killed=[1])))
    assert (error.ranks, error.killed, error.diagnosis.code) == ((0, 1), (1,), "cycle")
    assert str(error).startswith("ranks 0-1: a cycle\n(rank 1 did not stop when told and lost its process")


# -- a rank ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os._exit(0), "exit code 0"),
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by SIGKILL"),
        (lambda: os.abort(), "killed by SIGABRT"),
    ],
    ids=["exit 0", "exit 3", "SIGKILL", "SIGABRT"],
)
@pytest.mark.parametrize("waiting", [False, True], ids=["others finish", "others wait"])
def test_case_L13_a_rank_whose_process_ends_is_named(live_world: Live, end: Callable[[], None], words: str, waiting: bool) -> None:
    world = live_world(2)
    pids = world.pids
    error = failure(world, lambda comm: end() if comm.rank == 1 else all_reduce(torch.ones(1), comm) if waiting else 0, kind=RankDied)
    assert (error.ranks, error.suffered) == ((1,), (0,) if waiting else ())
    assert str(error).splitlines()[:2] == [f"rank 1 ended without a result ({words})", "rank 1 will be started again at the next run, without its variables."]
    assert ("memory ran out" in str(error)) == ("SIGKILL" in words)
    assert world.pids[0] == pids[0] and world.pids[1] != pids[1]


@pytest.mark.parametrize(("code", "words"), [(3, "exit code 3"), (0, "exit code 0"), (None, "exit code 0")])
def test_case_L13_sys_exit_is_no_result_either(live_world: Live, code: int | None, words: str) -> None:
    error = failure(live_world(2), lambda comm: sys.exit(code) if comm.rank == 1 else comm.rank)
    assert (str(error).splitlines()[0], error.ranks) == (f"rank 1: ended without a result ({words})", (1,))


def test_all_ranks_may_end(live_world: Live) -> None:
    error = failure(live_world(2), lambda comm: os._exit(7), kind=RankDied)
    assert str(error).splitlines()[0] == "ranks 0-1 ended without a result (exit code 7)"


def test_a_rank_that_dies_between_runs_is_replaced(live_world: Live) -> None:
    world = live_world(2)
    process = world._processes[1]
    os.kill(process.pid, signal.SIGKILL)
    assert world._collector.changed.wait_for(lambda: not process.alive, timeout=20)
    assert works(world)


def test_what_a_dead_rank_has_started_may_keep_its_output_open(live_world: Live) -> None:
    """A child of the rank inherits its pipes: their end never comes, and their numbers must not be mixed up with new ones."""

    def start_and_end(comm: Communicator) -> None:
        if comm.rank == 1:
            print("before", flush=True)
            subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=keep_open())
            os._exit(3)

    def keep_open() -> int:
        read, _ = os.pipe()
        return read

    world = live_world(2)
    for _ in range(3):
        failure(world, start_and_end, kind=RankDied)


def test_case_L12_a_rank_starts_no_ranks(live_world: Live) -> None:
    error = failure(live_world(2), lambda comm: World(2))
    assert "RuntimeError: World(2) called inside rank 0: a rank can't start ranks of its own" in str(error)


# -- who is to blame -------------------------------------------------------------------------------------------------


def test_a_rank_that_does_not_stop_when_told_is_not_the_cause(live_world: Live) -> None:
    """It loses its process, which is said, but the error is the other rank's."""

    def step(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("boom")
        while True:
            with suppress(BaseException):
                time.sleep(60)

    error = failure(live_world(2), step)
    assert (type(error), error.ranks, error.suffered, error.killed) == (RankError, (1,), (0,), (0,))
    assert str(error).startswith("rank 1: ValueError: boom\n")
    assert str(error).endswith("(rank 0 did not stop when told and lost its process: started again at the next run, without variables)")


def test_a_rank_that_survives_a_lost_connection_is_not_blocked_any_more(live_world: Live) -> None:
    def survive(comm: Communicator) -> None:
        if comm.rank == 1:
            os._exit(5)
        with suppress(RuntimeError):
            comm.recv(torch.empty(1), 1)
        time.sleep(60)

    error = failure(live_world(2), survive, kind=RankDied)
    assert str(error).startswith("rank 1 ended without a result (exit code 5)")


def test_the_variables_of_ranks_survive_the_failure_of_others(live_world: Live) -> None:
    world = live_world(2)

    def remember(comm: Communicator) -> None:
        torch.partkit_test_memory = comm.rank  # type: ignore[attr-defined]

    def fail(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError
        comm.recv(torch.empty(1), 1)

    world.run(remember)
    with pytest.raises(RankError):
        world.run(fail)
    assert list(world.run(lambda comm: torch.partkit_test_memory)) == [0, 1]  # type: ignore[attr-defined]


# -- what is no failure ----------------------------------------------------------------------------------------------


def test_warnings_of_ranks_arrive_on_stderr(live_world: Live, capfd: pytest.CaptureFixture[str]) -> None:
    def warn(comm: Communicator) -> int:
        warnings.warn("careful", stacklevel=1)
        return comm.rank

    assert list(live_world(2).run(warn)) == [0, 1]
    assert "UserWarning: careful" in capfd.readouterr().err


def test_a_destructor_that_fails_is_reported_and_fails_nothing(live_world: Live, capfd: pytest.CaptureFixture[str]) -> None:
    class Fails:
        def __del__(self) -> None:
            raise ValueError("in __del__")

    def use(comm: Communicator) -> int:
        Fails()
        return comm.rank

    assert list(live_world(2).run(use)) == [0, 1]
    assert "ValueError: in __del__" in capfd.readouterr().err


def test_a_rank_has_no_standard_input(live_world: Live) -> None:
    assert "EOFError" in str(failure(live_world(2), lambda comm: input("name? ")))


def test_a_thread_that_prints_for_ever_does_not_keep_a_run_from_ending(live_world: Live) -> None:
    def leave_a_thread(comm: Communicator) -> int:
        def chatter() -> None:
            while not done.wait(0.0001):
                print("still here " * 50)

        torch.partkit_test_done = done = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=chatter, daemon=True).start()
        return comm.rank

    world = live_world(2)
    assert list(world.run(leave_a_thread)) == [0, 1]
    world.run(lambda comm: torch.partkit_test_done.set())  # type: ignore[attr-defined]


# -- joining again ---------------------------------------------------------------------------------------------------


def leave_a_message(world: World) -> None:
    """Messages that nobody has waited for: the next run joins again."""
    with pytest.warns(UnwaitedMessages, match="never waited for"):
        world.run(lambda comm: comm.isend(torch.ones(1), 1 - comm.rank) and None)


def test_a_rank_that_dies_while_the_others_join_again_is_named(live_world: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it at the rendezvous, where nobody can reach them: they are replaced as well."""
    from partkit.worlds.messages import Connect
    from partkit.worlds.process import RankProcess

    world = live_world(2)
    leave_a_message(world)
    tell = RankProcess.send_bytes

    def kill_instead(self: RankProcess, data: bytes) -> None:
        if self.rank == 1 and Connect.__name__.encode() in data:
            self.kill()
        else:
            tell(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(RankProcess, "send_bytes", kill_instead)
        with pytest.raises(RuntimeError, match=r"ranks? .*1 could not join the others: rank 1 ended"):
            world.run(lambda comm: comm.rank)
    assert works(world)


def test_an_interrupt_while_ranks_join_leaves_a_world_that_works(live_world: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    world = live_world(2)
    leave_a_message(world)

    def interrupted(store: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(world, "_await_ready", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.run(lambda comm: comm.rank)
    assert works(world)
