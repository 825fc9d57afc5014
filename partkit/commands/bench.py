"""``partkit bench NAME``: run a benchmark of ``partkit/bench`` and print what it measured.

A benchmark is a module of that folder with ``run(argv) -> dict``: plain data that JSON can hold. A list of mappings in it
is printed as a table, anything else as a line. So a new benchmark is a new file, and nothing here changes.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
from importlib import import_module

from partkit.commands import Refusal
from partkit.commands.tables import report


def run(args: argparse.Namespace) -> int:
    """Run the benchmark that was named, or list them all."""
    known = benchmarks()
    if args.name is None:
        print("\n".join(f"{name:12} {what}" for name, what in known.items()))
        return 0
    if args.name not in known:
        raise Refusal(f"there is no benchmark {args.name!r}; there are: {', '.join(known)}")
    result = import_module(f"partkit.bench.{args.name}").run(args.rest)
    print(json.dumps(result, indent=1) if args.json else report(result))
    return 0


def benchmarks() -> dict[str, str]:
    """Name and first line of the docstring of each benchmark."""
    package = import_module("partkit.bench")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_"))
    modules = {name: import_module(f"partkit.bench.{name}") for name in names}
    return {name: (module.__doc__ or "").strip().split("\n")[0] for name, module in modules.items() if hasattr(module, "run")}
