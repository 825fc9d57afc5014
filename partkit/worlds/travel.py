"""How functions and values travel between the kernel and its ranks: by cloudpickle, notebook code by value.

What is defined in a notebook (functions, lambdas, closures, classes) is sent whole, with the globals it uses, so that a
redefined function is the new one. What lives in an importable module is sent by name. When something can't travel, the
error names the variable that holds it.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import cloudpickle


def pack_task(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Pickle a call for the ranks.

    Raises:
        TypeError: something in it can't be pickled; the message names the variable.
    """
    try:
        return pack((fn, tuple(args), dict(kwargs)))
    except Exception as problem:
        raise TypeError(f"{_name_of(fn)} can't be sent to the ranks: {_culprit(fn, args, kwargs) or problem}") from problem


def pack_result(value: Any) -> bytes:
    """Pickle what a rank's function returned.

    Raises:
        TypeError: it can't be pickled; the message says what it is.
    """
    try:
        return pack(value)
    except Exception as problem:
        raise TypeError(f"the result is a {_kind(value)}, which can't be sent back ({problem}); return plain values or tensors") from None


def pack(value: Any) -> bytes:
    """Pickle a value, code by value where it has no importable home."""
    with io.BytesIO() as file:
        Packer(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue()


def unpack(data: bytes) -> Any:
    """The value that `pack` pickled; only ever called on what this kernel's own ranks sent."""
    return pickle.loads(data)


class Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle forgets in which file code was written; tracebacks and traces need it. torch can't read all dtypes that it writes."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):
            make, arguments = self.dispatch_table[CodeType](obj)[:2]
            return _code_of_file, (make, arguments, obj.co_filename)
        if _is_young(obj):
            return _tensor_of, (obj.detach().view(_whole_numbers(obj.element_size())), obj.dtype, obj.requires_grad)
        return super().reducer_override(obj)


OLD = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "int64", "int32", "int16", "int8", "uint8", "bool")
"""The dtypes whose tensors torch can read again from a pickle. Of younger ones (float8, uint16, complex32, ...) it writes what it can't read."""


def _is_young(obj: Any) -> bool:
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is None or type(obj) is not getattr(torch, "Tensor", None) or str(obj.dtype).removeprefix("torch.") in OLD:
        return False
    return not obj.is_quantized and obj.layout is torch.strided and obj.device.type == "cpu"


def _whole_numbers(itemsize: int) -> Any:
    torch = sys.modules["torch"]
    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[itemsize]


def _tensor_of(bits: Any, dtype: Any, requires_grad: bool) -> Any:
    tensor = bits.view(dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def _code_of_file(make: Callable[..., CodeType], arguments: tuple[Any, ...], filename: str) -> CodeType:
    return make(*arguments).replace(co_filename=filename)


def _culprit(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The first variable that can't be pickled, in words; empty if each can by itself."""
    for where, value in _captured(fn, args, kwargs):
        try:
            pack(value)
        except Exception as problem:
            deeper = _culprit(value, (), {}) if hasattr(value, "__code__") else ""
            return deeper or f"{where} is a {_kind(value)}, which can't be pickled ({problem})"
    return ""


def _captured(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything that travels with a call, each with a description: arguments, closure, globals, defaults."""
    yield from ((f"argument {i} of the call", value) for i, value in enumerate(args))
    yield from ((f"argument {name}", value) for name, value in kwargs.items())
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        yield f"the captured variable {name!r}", cell.cell_contents
    used = _names(code)
    yield from ((f"the captured variable {name!r}", value) for name, value in fn.__globals__.items() if name in used)
    yield from ((f"default value {i}", value) for i, value in enumerate(fn.__defaults__ or ()))


def _names(code: Any) -> set[str]:
    inner = [const for const in code.co_consts if hasattr(const, "co_names")]
    return set(code.co_names).union(*(_names(const) for const in inner))


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)
