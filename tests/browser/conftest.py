"""A real JupyterLab and a real browser.

    def test_something(lab, page):
        notebook = lab.write("x.ipynb", "import partkit as pk", "pk.Timeline(trace)")
        lab.open(page, notebook)
        lab.run_all(page)
        page.locator(".partkit-timeline canvas").click()

One server for the session, on a free port of the loopback interface, with its own configuration and a copy of the notebooks:
nothing that a test saves ends up in the repository. A browser for each module, a fresh page for each test. If there is no
browser, the tests fail: the test command installs one.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from partkit.commands import browser as chromium

START_SECONDS = 60.0
CELL_SECONDS = 120.0
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells that are off the screen exist in the page all the same
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
}


class Lab:
    """A running JupyterLab.

    Attributes:
        url: address of the server.
        folder: its root, with a copy of the notebooks in ``notebooks/``.
    """

    def __init__(self, url: str, token: str, folder: Path, process: psutil.Process) -> None:
        self.url, self.folder, self.process = url, folder, process
        self._token = token

    def write(self, name: str, *cells: str) -> str:
        """Make a notebook of code cells; gives its name."""
        notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])  # type: ignore[no-untyped-call]
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.folder / name)  # type: ignore[no-untyped-call]
        return name

    def open(self, page: Page, name: str) -> None:
        """Show a notebook and wait until its kernel can take a cell."""
        page.goto(f"{self.url}/lab/tree/{name}?reset&token={self._token}")
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
        self.command(page, "notebook:run-all-cells")
        self.wait(page, seconds)

    def wait(self, page: Page, seconds: float = CELL_SECONDS) -> None:
        """Wait until no cell waits or runs."""
        page.wait_for_function(
            """() => [...window.jupyterapp.shell.currentWidget.content.widgets]
                .filter(cell => cell.model.type === "code" && cell.model.sharedModel.getSource().trim() !== "")
                .every(cell => cell.model.executionCount !== null && cell.model.executionState !== "running")""",
            timeout=1000 * seconds,
        )

    def command(self, page: Page, name: str) -> None:
        """Have JupyterLab carry out one of its commands."""
        page.evaluate("name => { void window.jupyterapp.commands.execute(name); }", name)

    def save(self, page: Page, name: str) -> Any:
        """Save the notebook in front; gives what is now in its file."""
        page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => null)")
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def kernels(self) -> list[psutil.Process]:
        """The kernels' processes."""
        return [child for child in self.process.children() if any("ipykernel" in word for word in child.cmdline())]

    def end_kernels(self) -> None:
        """End every kernel, and wait until its process and those under it are gone."""
        family = [process for kernel in self.kernels() for process in (kernel, *kernel.children(recursive=True))]
        for session in self._ask("GET", "/api/sessions"):
            self._ask("DELETE", f"/api/sessions/{session['id']}")
        _, left = psutil.wait_procs(family, timeout=15)
        assert left == [], f"processes that outlived their kernel: {left}"

    def _ask(self, method: str, address: str) -> Any:
        request = urllib.request.Request(self.url + address, method=method, headers={"Authorization": f"token {self._token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
        return json.loads(body) if body else None


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Lab]:
    """JupyterLab on a free port of the loopback interface."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(root / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    settings = tmp_path_factory.mktemp("settings")
    for name, values in SETTINGS.items():
        path = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    port, token = free_port(), secrets.token_hex(16)
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": token,
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path_factory.mktemp("workspaces")),
    }
    environment.pop("PARTKIT_STATIC")  # there is a front end here
    with (
        open(folder / "lab.log", "wb") as log,
        subprocess.Popen(command(folder, port), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        server = Lab(f"http://127.0.0.1:{port}", token, folder, psutil.Process(process.pid))
        try:
            wait_for_server(server, process, folder / "lab.log")
            yield server
            server.end_kernels()
        finally:
            process.terminate()
            process.wait(timeout=30)


def command(folder: Path, port: int) -> list[str]:
    """How the server is started."""
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
    ]


def wait_for_server(server: Lab, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers; with its log if it does not."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server._ask("GET", "/api/status")
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where the browser is; found before Playwright's event loop runs in this thread."""
    path = chromium.find()
    assert path is not None, "there is no Chromium; `python3 -m partkit test` installs one"
    return path


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A headless Chromium. For one module only: Playwright's event loop runs in this thread while it is there."""
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium_path, args=list(chromium.FLAGS))
        yield instance
        instance.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """``new_page(color_scheme="dark", reduced_motion="reduce")``: a page in a context of its own."""
    contexts = []

    def make(**options: Any) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Page], request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page. Kernels that a test started in it are ended after it."""
    yield new_page()
    if "lab" in request.fixturenames:
        server: Lab = request.getfixturevalue("lab")
        server.end_kernels()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a browser test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
