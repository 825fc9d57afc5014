"""A view in which a reader changes something: what the browser wishes for is granted or refused, always in words.

browser     {"type": "do", "what": "move", ...}
Python      grants it: `chart` changes, `said` has the answer; or refuses: `chart` is as before, `said` has the reason
browser     {"type": "do", "what": "settle"}: the reader has left, so the stored picture becomes that of what is there now
"""

from __future__ import annotations

from typing import Any

import traitlets

from partkit.widgets.live import LiveView


class InteractiveView(LiveView):
    """A view with answers. A subclass says what is drawn (`_show`) and what can be wished for (`_grant`)."""

    chart = traitlets.Dict().tag(sync=True)
    """What changes, as JSON."""
    said = traitlets.Dict({"text": "", "refused": False, "number": 0}).tag(sync=True)
    """The answer to the last wish: a text, whether it is a refusal, and which answer it is: the same one twice is news, too."""

    _num_answers = 0
    _stale = False
    """Whether the stored picture is of an earlier state."""

    def _show(self) -> None:
        """Make `chart` anew from what holds."""
        raise TypeError(f"{type(self).__name__} draws nothing: define _show")

    def _grant(self, wish: dict[str, Any]) -> str:
        """Do what a reader wishes for; the answer.

        Raises:
            ValueError: it is not possible; the message says why.
            RuntimeError: the same.
        """
        raise TypeError(f"{type(self).__name__} grants nothing: define _grant")

    def _shown(self, chart: dict[str, Any]) -> None:
        self.chart, self._stale = chart, True

    def _answer(self, text: str, *, refused: bool = False) -> None:
        self._num_answers += 1
        self.said = {"text": text, "refused": refused, "number": self._num_answers}

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("type") != "do":
            super()._hear(message)
        elif message["what"] == "settle":
            if self._stale and self.meta["frozen"]:
                self._freeze()
        else:
            try:
                self._answer(self._grant(message))
            except (ValueError, RuntimeError) as refused:
                self._show()  # what the reader has moved goes back to what holds
                self._answer(str(refused), refused=True)

    def _freeze(self) -> None:
        self._stale = False
        super()._freeze()
