"""The command line: what can be typed, and which file answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from partkit.commands import Refusal, environment

MODULES = {"lab": "lab", "demo": "demo", "bench": "bench", "view": "view", "test": "suite"}
"""Command -> file in ``partkit/commands``."""
EXTRAS = {"lab": "notebook", "test": "dev"}
"""Command -> the extra of partkit that it needs, if any."""


def build() -> argparse.ArgumentParser:
    """The whole command line, without importing anything it would run."""
    parser = argparse.ArgumentParser(
        prog="partkit",
        description="Understand and prototype parallel deep learning: live ranks, readable collectives, every message visible.",
        epilog="In a clone of the repository, `python3 -m partkit COMMAND` makes .venv and installs what the command needs.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_lab(commands)
    _add_demo(commands)
    _add_bench(commands)
    _add_view(commands)
    _add_test(commands)
    for command in commands.choices.values():
        _add_setup_options(command)
    return parser


Commands = argparse._SubParsersAction  # the type has no public name


def _add_lab(commands: Commands[argparse.ArgumentParser]) -> None:
    lab = commands.add_parser("lab", help="open JupyterLab at the course", description="Open JupyterLab at the first notebook of the course.")
    lab.add_argument("--headless", action="store_true", help="no browser: run the notebook, print what it found, exit 1 if it fails")
    lab.add_argument("--notebook", metavar="FILE", help="another notebook than the first")
    lab.add_argument("--no-browser", action="store_true", help="start the server and print its address, open nothing")
    lab.add_argument("--port", type=int, metavar="N", help="port of the server (default: a free one from 8888 on)")


def _add_demo(commands: Commands[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser("demo", help="a ring all-reduce on live ranks, in the terminal", description="Run a ring all-reduce on live ranks.")
    demo.add_argument("--ranks", type=int, default=4, metavar="N", help="number of processes (default: 4)")
    demo.add_argument("--elements", type=int, default=10, metavar="N", help="elements of each rank's tensor (default: 10)")


def _add_bench(commands: Commands[argparse.ArgumentParser]) -> None:
    bench = commands.add_parser("bench", help="measure ratios side by side", description="Run one benchmark. Without NAME: list them.")
    bench.add_argument("name", nargs="?", metavar="NAME", help="which benchmark")
    bench.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def _add_view(commands: Commands[argparse.ArgumentParser]) -> None:
    view = commands.add_parser("view", help="show a saved trace", description="Write a saved trace as a page beside it, and open that in the browser.")
    view.add_argument("file", metavar="FILE", help="what Trace.save wrote")
    view.add_argument("-o", "--output", metavar="PAGE", help="where to write the page (default: FILE with the ending .html)")
    view.add_argument("--no-browser", action="store_true", help="write the page, open nothing")


def _add_test(commands: Commands[argparse.ArgumentParser]) -> None:
    commands.add_parser(
        "test",
        help="run every check",
        description="Run every check: style, types, and the unit, live, notebook and browser tests. "
        "Anything after -- goes to pytest, and then pytest alone is run: partkit test -- tests/test_mesh.py",
    )


def _add_setup_options(command: argparse.ArgumentParser) -> None:
    setup = command.add_argument_group("setting up (in a clone)")
    setup.add_argument("--here", action="store_true", help="use the environment of this Python, and its torch, instead of .venv")
    setup.add_argument("--cuda", action="store_true", help="if torch is to be installed, take the build that pip chooses, CUDA included (several GB)")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments as a namespace; ``rest`` holds what goes to pytest or to the benchmark."""
    own, rest = list(argv), []
    if "--" in own:
        at = own.index("--")
        own, rest = own[:at], own[at + 1 :]
    parser = build()
    args, unknown = parser.parse_known_args(own)
    if unknown and args.command != "bench":
        parser.error(f"partkit {args.command} does not know {' '.join(unknown)} (partkit {args.command} --help tells what it knows)")
    args.rest = unknown + rest
    return args


def dispatch(argv: Sequence[str]) -> int:
    """Read the arguments, make sure of the environment, run the command. Gives the exit status."""
    args = parse(argv)
    try:
        environment.ensure(EXTRAS.get(args.command), argv, here=args.here, cuda=args.cuda)
        status: int = import_module(f"partkit.commands.{MODULES[args.command]}").run(args)
        return status
    except Refusal as refusal:
        print(f"partkit: {refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
