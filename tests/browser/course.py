"""A notebook of the course in a page, and a timeline in it: what the tests ask and do."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.jupyter import Lab
from tests.browser.pixels import picture

NAME = "notebooks/01-first-four-ranks.ipynb"
WATCH = """index => {
    const cell = jupyterapp.shell.currentWidget.content.widgets[index], seen = (window.growth = []);
    const painted = (name) => Number(cell.node.querySelector(`.${name} .pk-over`)?.dataset.painted ?? 0);
    const look = () => {
        const now = [painted("partkit-curve"), painted("partkit-timeline"), cell.node.querySelector(".partkit-timeline .pk-status")?.textContent ?? ""];
        if (cell.model.executionState === "running" && String(seen.at(-1)) !== String(now)) seen.push(now);
        requestAnimationFrame(look);
    };
    look();
}"""
"""Notes what the views of a cell have painted, frame by frame, as long as the cell runs."""
ASK = """async code => {
    const future = jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code, store_history: false });
    let text = "";
    future.onIOPub = (message) => { text += message.content.text ?? message.content.evalue ?? ""; };
    await future.done;
    return text;
}"""


class Course:
    """A notebook in a page."""

    def __init__(self, lab: Lab, page: Page) -> None:
        self.lab, self.page = lab, page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def open(self, name: str) -> None:
        """Show a notebook, none of its cells run."""
        self.lab.open(self.page, name)
        self.page.evaluate("() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs').then(() => null)")

    def run(self) -> None:
        """All cells of the first notebook; the guess, 20, is typed before its answer is known."""
        self.open(NAME)
        form = self.index("pk.Prediction")
        for index in self.code_cells():
            if index > form:
                break
            self.lab.run(self.page, index)
        self.guess("pk.Prediction", 20)
        expect(self.output("pk.Prediction")).to_contain_text("your guess: 20 messages")
        self.page.evaluate(WATCH, self.index("world.start"))
        for index in self.code_cells():
            if index > form:
                self.lab.run(self.page, index)

    def run_cells(self, *words: str) -> None:
        """The first code cell that contains each of these words."""
        for each in words:
            self.lab.run(self.page, self.index(each))

    def guess(self, words: str, number: int) -> None:
        """Commit to a number in the form that a cell shows, with the keyboard alone."""
        self.cell(words).locator("input").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(str(number))
        self.page.keyboard.press("Tab")
        self.page.keyboard.press("Enter")

    def code_cells(self) -> list[int]:
        """Numbers of the code cells, text cells counted too."""
        kinds = self.page.evaluate("() => jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.type)")
        return [index for index, kind in enumerate(kinds) if kind == "code"]

    def source(self, index: int) -> str:
        """A cell's text."""
        text: str = self.page.evaluate("index => jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.getSource()", index)
        return text

    def index(self, words: str) -> int:
        """Number of the first code cell that contains ``words``."""
        return next(index for index in self.code_cells() if words in self.source(index))

    def cell(self, words: str) -> Locator:
        """The first code cell that contains ``words``."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(self.index(words))

    def output(self, words: str) -> Locator:
        """What that cell shows."""
        return self.cell(words).locator(".jp-OutputArea").first

    def set_source(self, index: int, text: str) -> None:
        """Write a cell anew."""
        self.page.evaluate("([index, text]) => jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.setSource(text)", [index, text])

    def ask(self, code: str) -> str:
        """What the kernel prints for some code that is no cell."""
        answer: str = self.page.evaluate(ASK, code)
        return answer.strip()


Opened = Callable[[str], Course]


class Timeline:
    """A timeline in the page."""

    def __init__(self, output: Locator) -> None:
        self.root = output.locator(".partkit-timeline")
        self.main, self.over = self.root.locator("canvas").first, self.root.locator(".pk-over")
        self.tip, self.info, self.help, self.table = (self.root.locator(f".pk-{part}") for part in ("tip", "info", "help", "table"))

    def settle(self) -> str:
        """The picture once it no longer changes."""
        before, now = "", picture(self.main)
        while now != before:
            self.root.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            before, now = now, picture(self.main)
        return now
