"""Which Python runs a command: this one, or the clone's own ``.venv``, made when it is not there.

    partkit installed here with what the command needs    this Python, nothing to do
    a clone, something missing                            <clone>/.venv is made and filled, once; the command starts again there
    no clone (installed by pip)                           a refusal that names the pip command

``.venv`` carries a stamp: for which pyproject.toml, which folder and which extras it was filled. A second start costs one
look at it. Standard library only, since this runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from partkit.commands import Refusal, debian, torch_build
from partkit.commands.progress import quietly, surely, tail

PIP = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_ROOT_USER_ACTION": "ignore"}
STAMP = "partkit.json"
COMPILE = """import compileall, re, sysconfig
compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, rx=re.compile(r"[/\\\\]tests?[/\\\\]"), workers=0)"""
"""On all cores, without the packages' own tests."""
FILLED = "PARTKIT_JUST_FILLED"
"""Set for the second start, so that a set-up that does not help cannot go round in circles."""
BRINGS = {None: frozenset[str](), "notebook": frozenset({"notebook"}), "dev": frozenset({"notebook", "dev"})}
"""The extras that come with an extra."""


def ensure(extra: str | None, argv: Sequence[str], *, here: bool, cuda: bool) -> None:
    """Return if this Python has what the command needs; else provide it and start the command again.

    Args:
        extra: the extra of partkit that the command needs; None for the library alone.
        argv: the command's arguments, for the second start.
        here: install into this Python's environment instead of ``.venv``.
        cuda: if torch must be installed, any build will do.

    Raises:
        Refusal: something cannot be installed.
    """
    just_filled = os.environ.pop(FILLED, None) is not None
    root, prefix = clone(), Path(sys.prefix).resolve()
    if root is None:
        if lacking := missing(extra):
            package = f"partkit[{extra}]" if extra else "partkit"
            raise Refusal(f"not installed: {', '.join(lacking)}. This brings it: {sys.executable} -m pip install '{package}'")
        return
    venv = (root / ".venv").resolve()
    if stamped(venv, root, extra) if prefix == venv else installed_from(root) and not missing(extra):
        return
    if just_filled:
        raise Refusal(f"{prefix} was set up, and still lacks: {', '.join(missing(extra)) or 'partkit itself'}")
    python = Path(sys.executable) if here or prefix == venv else make(venv)
    if here or not stamped(venv, root, extra):
        fill(python, root, extra, cuda=cuda)
    if not here:
        ask_nothing(venv)
        stamp(venv, root, extra)
    start_again(python, argv)


# -- what is there ---------------------------------------------------------------------------------------------------


def clone() -> Path | None:
    """The folder of the repository that this package lies in; None if it was installed by pip."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").exists() else None


def installed_from(root: Path) -> bool:
    """Whether the partkit of this environment is the clone at ``root`` itself (an editable install)."""
    try:
        origin = metadata.distribution("partkit").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return False
    return origin is not None and json.loads(origin).get("url") == root.as_uri()


def missing(extra: str | None) -> list[str]:
    """The packages that partkit with ``extra`` requires and that are not installed here."""
    try:
        requirements = metadata.requires("partkit") or []
    except metadata.PackageNotFoundError:
        return ["partkit"]
    return [name for name in (required(text, extra) for text in requirements) if name and not _installed(name)]


def required(requirement: str, extra: str | None) -> str | None:
    """The package that a line of metadata asks for, or None if it does not apply to ``extra``.

    Example:
        >>> required('jupyterlab>=4.4; extra == "notebook"', "dev"), required('nbval>=0.11; extra == "dev"', "notebook")
        ('jupyterlab', None)
    """
    name = re.match(r"[\w.-]+", requirement)
    condition = re.search(r"extra == ['\"](\w+)['\"]", requirement)
    if name is None or (condition is not None and condition[1] not in BRINGS[extra]):
        return None
    return name[0]


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


# -- the stamp -------------------------------------------------------------------------------------------------------


def _contents(root: Path) -> dict[str, str]:
    return {"root": str(root), "pyproject": hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()}


def stamped(venv: Path, root: Path, extra: str | None) -> bool:
    """Whether ``venv`` was filled for this pyproject.toml, this folder and ``extra``."""
    try:
        found = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return _contents(root).items() <= found.items() and BRINGS[extra] <= set(found["extras"])


def stamp(venv: Path, root: Path, extra: str | None) -> None:
    """Note what ``venv`` was filled for. Extras of an earlier filling stay, if it was for the same pyproject.toml."""
    extras = set(BRINGS[extra])
    if stamped(venv, root, None):
        extras |= set(json.loads((venv / STAMP).read_text(encoding="utf-8"))["extras"])
    (venv / STAMP).write_text(json.dumps({**_contents(root), "extras": sorted(extras)}), encoding="utf-8")


# -- making it -------------------------------------------------------------------------------------------------------


def interpreter(venv: Path) -> Path:
    """Where the Python of a virtual environment lies, by the standard library's own rule."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make(venv: Path) -> Path:
    """Make a virtual environment, or keep the one that is there if it works. Gives its interpreter.

    Raises:
        Refusal: this Python cannot make one, and we may not install what it lacks.
    """
    python = interpreter(venv)
    if works(venv):
        return python
    if find_spec("ensurepip") is None and debian.can_install():
        debian.install(f"python3.{sys.version_info[1]}-venv")
    status, output = quietly(f"making {venv.name}", [sys.executable, "-m", "venv", "--clear", str(venv)])
    if status != 0 and find_spec("virtualenv") is not None:
        status, output = quietly(f"making {venv.name} with virtualenv", [sys.executable, "-m", "virtualenv", "--clear", str(venv)])
    if status != 0:
        raise Refusal(
            f"{sys.executable} cannot make a virtual environment. On Debian and Ubuntu this brings what it lacks:\n"
            f"    sudo apt-get install python3.{sys.version_info[1]}-venv\nIt said:\n{tail(output)}"
        )
    return python


def works(venv: Path) -> bool:
    """Whether an environment's interpreter is there (it is not after an upgrade of the system's Python, say) and has pip.

    pip takes a second to ask, so that the stamp counts as a yes: it was written after pip had done its work.
    """
    python = interpreter(venv)
    return python.exists() and ((venv / STAMP).exists() or subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0)


def fill(python: Path, root: Path, extra: str | None, *, cuda: bool) -> None:
    """Install torch and the clone, editable, into the environment of ``python``."""
    os.environ.update(PIP)
    torch_build.install(str(python), cuda=cuda)
    what = f"{root}[{extra}]" if extra else str(root)
    title = f"installing partkit and its packages{f' ({extra})' if extra else ''}"
    surely(title, [str(python), *torch_build.PIP_INSTALL, "--editable", what])
    quietly("compiling them", [str(python), "-c", COMPILE])  # what does not compile is a template or a test: nobody imports it


def ask_nothing(venv: Path) -> None:
    """Have the JupyterLab of ``venv`` open without asking whether it may fetch news: the course is what should be in front."""
    overrides = venv / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    overrides.parent.mkdir(parents=True, exist_ok=True)
    overrides.write_text(json.dumps({"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}), encoding="utf-8")


def start_again(python: Path, argv: Sequence[str]) -> None:
    """Run the command in the environment of ``python``; does not return."""
    folder = str(python.parent)
    env = {**os.environ, FILLED: "1", "PATH": folder + os.pathsep + os.environ.get("PATH", "")}
    command = [str(python), "-m", "partkit", *argv]
    sys.stderr.flush()
    if os.name == "nt":  # there, exec would give the terminal back before the command ends
        raise SystemExit(subprocess.call(command, env=env))
    os.execve(command[0], command, env)
