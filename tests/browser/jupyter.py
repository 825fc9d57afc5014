"""Jupyter's own front ends as processes, each in a folder of its own, on a free port of the loopback interface.

    with jupyter_lab(folder) as lab:           JupyterLab; also notebook_7(folder)
        lab.open(page, lab.write("x.ipynb", "import partkit as pk", "pk.Timeline(trace)"))
        lab.run_all(page)

    with voila(folder) as server:              notebooks as pages, without their code
        page.goto(f"{server.url}/voila/render/x.ipynb")

A server gets configuration, settings and workspaces that are empty but for what tests need, and takes its kernels with it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import psutil
from playwright.sync_api import Page

START_SECONDS = 60.0
CELL_SECONDS = 120.0
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells that are off the screen exist in the page all the same
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
}


class Server:
    """A running front end.

    Attributes:
        url: its address.
        folder: its root.
        process: its own, parent of the kernels'.
    """

    probe = "/api/kernels"

    def __init__(self, url: str, token: str, folder: Path, process: psutil.Process) -> None:
        self.url, self.folder, self.process = url, folder, process
        self.token = token

    def write(self, name: str, *cells: str, **metadata: Any) -> str:
        """Make a notebook of code cells; gives its name."""
        notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])  # type: ignore[no-untyped-call]
        notebook.metadata.update(kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"}, **metadata)
        nbformat.write(notebook, self.folder / name)  # type: ignore[no-untyped-call]
        return name

    def kernels(self) -> list[psutil.Process]:
        """The kernels' processes."""
        return [child for child in self.process.children() if any("ipykernel" in word for word in child.cmdline())]

    def end_kernels(self) -> None:
        """End every kernel, and wait until its process and those under it are gone."""
        family = self.family()
        for name in self.kernel_names():
            self.end_kernel(name)
        _, left = psutil.wait_procs(family, timeout=15)
        assert left == [], f"processes that outlived their kernel: {left}"

    def kernel_names(self) -> list[str]:
        """The kernels as the server knows them."""
        return [kernel["id"] for kernel in json.loads(self.ask("GET", "/api/kernels"))]

    def end_kernel(self, name: str) -> None:
        """Have the server end one."""
        self.ask("DELETE", f"/api/kernels/{name}")

    def family(self) -> list[psutil.Process]:
        """The kernels and what they have started."""
        return [process for kernel in self.kernels() for process in (kernel, *kernel.children(recursive=True))]

    def wait_until_up(self, log: Path) -> None:
        """Until it answers; with its log if it does not."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE:
            try:
                self.ask("GET", self.probe)
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the server did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")

    def ask(self, method: str, address: str) -> bytes:
        """What the server answers."""
        request = urllib.request.Request(self.url + address, method=method, headers={"Authorization": f"token {self.token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: bytes = answer.read()
        return found


class Lab(Server):
    """JupyterLab, or Notebook 7, which is made of the same parts: the page's ``jupyterapp`` answers for both."""

    place = "lab/tree"

    def open(self, page: Page, name: str) -> None:
        """Show a notebook and wait until its kernel can take a cell."""
        page.goto(f"{self.url}/{self.place}/{name}?reset&token={self.token}")
        page.wait_for_function(
            """name => {
                const panel = window.jupyterapp?.shell.currentWidget;
                return panel?.context?.path === name && panel.context.isReady && panel.sessionContext.session?.kernel?.status === "idle"
                    && panel.content.widgets.length > 0 && panel.node.querySelector(".jp-Cell") !== null;
            }""",
            arg=name,
            timeout=1000 * START_SECONDS,
        )

    def run_all(self, page: Page, seconds: float = CELL_SECONDS) -> None:
        """Run every cell and wait until the last is done."""
        page.evaluate(_CARRY_OUT, ["notebook:run-all-cells", 1000 * seconds])

    def run(self, page: Page, index: int, seconds: float = CELL_SECONDS) -> None:
        """Run the cell with this number, counted from 0, text cells too; returns when it is done."""
        page.evaluate(_GO_TO, index)
        page.evaluate(_CARRY_OUT, ["notebook:run-cell", 1000 * seconds])

    def start(self, page: Page, index: int) -> None:
        """The same; returns at once."""
        page.evaluate(_GO_TO, index)
        self.command(page, "notebook:run-cell")

    def command(self, page: Page, name: str, **arguments: Any) -> None:
        """Have the front end carry out one of its commands."""
        page.evaluate("([name, args]) => { void window.jupyterapp.commands.execute(name, args); }", [name, arguments])

    def save(self, page: Page, name: str) -> Any:
        """Save the notebook in front; gives what is now in its file."""
        page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => null)")
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


_GO_TO = "index => { const { content } = window.jupyterapp.shell.currentWidget; content.deselectAll(); content.activeCellIndex = index; }"
_CARRY_OUT = """([name, patience]) => Promise.race([
    window.jupyterapp.commands.execute(name).then(() => null),
    new Promise((_, fail) => setTimeout(() => fail(new Error(`${name} takes longer than ${patience} ms`)), patience)),
])"""


class Notebook7(Lab):
    """Notebook 7."""

    place = "notebooks"


class Voila(Server):
    """Voila: a kernel for each page that is opened."""

    probe = "/"

    def kernel_names(self) -> list[str]:
        """There is no list to ask for; the names are in the kernels' command lines."""
        return re.findall(r"kernel-([\w-]+)\.json", " ".join(word for kernel in self.kernels() for word in kernel.cmdline()))

    def end_kernel(self, name: str) -> None:
        """What a page does when it is left."""
        self.ask("POST", f"/voila/api/shutdown/{name}")


@contextmanager
def jupyter_lab(folder: Path) -> Iterator[Lab]:
    """A JupyterLab whose root is ``folder``."""
    with _server(Lab, folder, "jupyterlab", "--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly") as lab:
        yield lab


@contextmanager
def notebook_7(folder: Path) -> Iterator[Notebook7]:
    """A Notebook 7 whose root is ``folder``."""
    with _server(Notebook7, folder, "notebook", "--JupyterNotebookApp.expose_app_in_browser=True") as notebook:
        yield notebook


@contextmanager
def voila(folder: Path) -> Iterator[Voila]:
    """A Voila that shows the notebooks in ``folder``."""
    with _server(Voila, folder, "voila") as server:
        yield server


@contextmanager
def _server(kind: type[Any], folder: Path, module: str, *options: str) -> Iterator[Any]:
    """Start a front end, wait until it answers, and end it with all its kernels."""
    port, token = free_port(), secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="jupyter-") as own:
        log = Path(own) / "log"
        with (
            open(log, "wb") as out,
            subprocess.Popen(
                [*_command(module, folder, port, token), *options], env=_environment(Path(own)), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            ) as process,
        ):
            server = kind(f"http://127.0.0.1:{port}", token, folder, psutil.Process(process.pid))
            try:
                server.wait_until_up(log)
                yield server
                server.end_kernels()
            finally:
                family = server.family()
                process.terminate()
                process.wait(timeout=30)
                _, left = psutil.wait_procs(family, timeout=15)
                assert left == [], f"processes that outlived their server: {left}"


def _command(module: str, folder: Path, port: int, token: str) -> list[str]:
    if module == "voila":
        return [sys.executable, "-m", "voila", str(folder), "--no-browser", f"--port={port}", f"--token={token}", "--show_tracebacks=True"]
    return [
        *(sys.executable, "-m", module, "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--IdentityProvider.token={token}"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"),
    ]


def _environment(own: Path) -> dict[str, str]:
    """Ours, with configuration of its own; and nobody told this one to draw statically: there is a front end here."""
    for name, values in SETTINGS.items():
        path = own / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    variables = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "JUPYTER_CONFIG_DIR": "config", "IPYTHONDIR": "ipython"}
    environment = {**os.environ, **{variable: str(own / name) for variable, name in variables.items()}}
    environment.pop("PARTKIT_STATIC", None)
    return environment


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
