"""How functions and values travel, and how it is said when they can't."""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from partkit.worlds.errors import RankError
from partkit.worlds.travel import pack, pack_result, pack_task, unpack
from partkit.worlds.world import World
from tests.collectives.inputs import dtypes
from tests.worlds.failing import failure, works

Live = Callable[[int], World]


def notebook(source: str) -> dict[str, Any]:
    """What a notebook's cells define: names of a ``__main__`` that nobody else can import."""
    module = types.ModuleType("__main__")
    exec(compile(source, "/tmp/ipykernel_1/2.py", "exec"), vars(module))
    return vars(module)


def test_a_function_keeps_the_file_in_which_it_was_written() -> None:
    f = notebook("def f(x):\n    return [y + 1 for y in x]")["f"]
    copy = unpack(pack(f))
    assert copy([1]) == [2]
    assert {code.co_filename for code in (copy.__code__, *(c for c in copy.__code__.co_consts if hasattr(c, "co_filename")))} == {"/tmp/ipykernel_1/2.py"}


LOCK = threading.Lock()


def uses_a_global(comm: Any) -> None:
    LOCK.acquire()


def test_case_L01_what_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def helper() -> None:
        lock.acquire()

    cases: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
        (lambda comm: lock.acquire(), (), {}, "the captured variable 'lock' is a _thread.lock, which can't be pickled"),
        (lambda comm: helper(), (), {}, "the captured variable 'lock' is a _thread.lock"),
        (lambda comm, x: x, (lock,), {}, "argument 0 of the call is a _thread.lock"),
        (lambda comm, x, y: x, (1,), {"y": [lock]}, "argument y is a list"),
        (lambda comm, x=lock: x, (), {}, "default value 0 is a _thread.lock"),
        (
            notebook("import threading\nguard = threading.Lock()\ndef f(comm):\n    guard.acquire()")["f"],
            (),
            {},
            "the captured variable 'guard' is a _thread.lock",
        ),
        (lambda comm, x: x, ((i for i in range(3)),), {}, "argument 0 of the call is a generator"),
    ]
    for fn, args, kwargs, words in cases:
        with pytest.raises(TypeError) as caught:
            pack_task(fn, args, kwargs)
        assert f"can't be sent to the ranks: {words}" in str(caught.value)


def test_a_result_that_cannot_travel_is_named() -> None:
    with pytest.raises(TypeError, match=r"the result is a generator, which can't be sent back"):
        pack_result(i for i in range(3))
    with pytest.raises(TypeError, match=r"the result is a _thread\.lock, which can't be sent back"):
        pack_result(threading.Lock())


@pytest.mark.live
def test_case_L01_nothing_starts_if_the_function_cannot_travel(live_world: Live) -> None:
    world, lock = live_world(2), threading.Lock()
    trace = world.trace
    with pytest.raises(TypeError, match="the captured variable 'lock'"):
        world.run(lambda comm: lock.acquire())
    assert world.trace is trace and not world.busy and works(world)


@pytest.mark.live
def test_a_result_that_cannot_travel_is_an_error_of_its_rank(live_world: Live) -> None:
    error = failure(live_world(2), lambda comm: (i for i in range(3)) if comm.rank else 0)
    assert str(error).splitlines()[0].startswith("rank 1: TypeError: the result is a generator, which can't be sent back")


@pytest.mark.live
def test_a_value_that_breaks_on_arrival_breaks_only_its_run(live_world: Live) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return exec, ("raise RuntimeError('sprung')",)

    world = live_world(2)
    error = failure(world, lambda comm, x: x, Trap())
    assert "RuntimeError: sprung" in str(error)
    with pytest.raises(RuntimeError, match="sprung"):
        world.run(lambda comm: Trap())
    assert works(world)


@pytest.mark.live
def test_tensors_and_arrays_of_any_kind_come_back_as_they_are(live_world: Live) -> None:
    def make(comm: Any) -> dict[str, Any]:
        import numpy as np

        generator = torch.Generator().manual_seed(comm.rank)
        return {
            "bf16": torch.randn(3, generator=generator).bfloat16(),
            "view": torch.arange(6).reshape(2, 3).T,
            "numpy": np.arange(3),
            "grad": torch.ones(2, requires_grad=True),
            "float8": torch.ones(2).to(torch.float8_e4m3fn),
        }

    for value in live_world(2).run(make):
        assert value["bf16"].dtype == torch.bfloat16
        assert value["view"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert value["numpy"].tolist() == [0, 1, 2] and value["grad"].requires_grad
        assert value["float8"].float().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", dtypes(), ids=str)
def test_tensors_of_every_dtype_come_back_with_their_bits_and_strides(dtype: torch.dtype) -> None:
    itemsize = torch.empty(1, dtype=dtype).element_size()
    numbers = torch.arange(24 * itemsize, dtype=torch.uint8).reshape(4, 6 * itemsize) % 2  # of bool no byte is above 1
    x = numbers.view(dtype)[:, ::2]
    back = unpack(pack([x]))[0]
    assert back.dtype == dtype and back.shape == x.shape and back.stride() == x.stride()
    assert back.contiguous().view(torch.uint8).tolist() == x.contiguous().view(torch.uint8).tolist()


def test_a_young_dtype_keeps_its_wish_for_gradients_and_parameters_are_parameters() -> None:
    x = torch.ones(2).to(torch.float8_e4m3fn).requires_grad_()
    there, parameter = unpack(pack((x, torch.nn.Parameter(x.detach(), requires_grad=False))))
    assert there.requires_grad and there.dtype == x.dtype
    assert isinstance(parameter, torch.nn.Parameter) and parameter.dtype == x.dtype and not parameter.requires_grad


def test_classes_and_functions_of_a_script_travel_both_ways() -> None:
    """What a notebook defines is by value; an instance that comes back is of the class that the kernel knows."""
    script = """
import math
from dataclasses import dataclass
import partkit as pk
@dataclass
class Point:
    x: int
    def doubled(self): return Point(2 * self.x)
class Oops(Exception): pass
def helper(x): return math.floor(x) + k
k = 3
def f(comm, point): return Point(point.x + helper(comm.rank + 0.5))
def g(comm): raise Oops(comm.rank)
def make(n):
    def inside(comm): return n * comm.rank + k
    return inside
with pk.World(2) as world:
    points = world.run(f, Point(10))
    print(points, [type(p) is Point for p in points], points[1].doubled())
    print(world.run(make(7)))
    k = 100
    print(world.run(make(7)), world.run(lambda comm: comm.rank * k))
    def f(comm, point): return "new"
    print(world.run(f, None))
    try: world.run(g)
    except RuntimeError as e: print(str(e).splitlines()[0], type(e.__cause__) is Oops)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[Point(x=13), Point(x=14)] [True, True] Point(x=28)",
        "[3, 10]",
        "[100, 107] [0, 100]",
        "['new', 'new']",
        "rank 0: Oops: 0 True",
    ]


def test_the_error_of_a_rank_is_a_runtime_error() -> None:
    assert issubclass(RankError, RuntimeError)
