"""What the reader of a studio wants, as a browser says it, made to moves of a session.

{"what": "place", "action": "1F0"}                  {"what": "set", "key": "latency", "at": 3}
{"what": "place", "action": "1F0", "rank": 0}       {"what": "choose", "name": "zb_h1"}
{"what": "next", "rank": 1, "kind": "B"}            {"what": "split", "on": true}
{"what": "move", "action": "1F0", "rank": 1, "to": 2}       undo, redo, clear
{"what": "remove", "action": "1F0"}
{"what": "why", "rank": 1, "time": 2.5}             the only one that changes nothing, and has an answer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from partkit.figures.studio_controls import slide
from partkit.figures.studio_session import Session
from partkit.figures.studio_why import why

Wish = Mapping[str, Any]


def grant(session: Session, wish: Wish) -> str:
    """Do what a reader wants.

    Args:
        session: the studio.
        wish: what it is, and what it takes.

    Returns:
        The answer to a question; nothing for a move.

    Raises:
        ValueError: it is refused; the error says why.

    Example:
        >>> session = Session(None, 2, 2)
        >>> grant(session, {"what": "place", "action": "0F0"})
        ''
        >>> grant(session, {"what": "why", "rank": 0, "time": 0.5})
        'Rank 0 runs 0F0, the forward of stage 0 on micro-batch 0, from 0 to 1.'
    """
    if wish["what"] == "why":
        return why(session.board, wish["rank"], wish["time"])
    moves: dict[str, Callable[[], Any]] = {
        "place": lambda: session.place(wish["action"], wish.get("rank")),
        "next": lambda: session.place_next(wish["rank"], wish["kind"]),
        "remove": lambda: session.remove(wish["action"]),
        "move": lambda: session.move(wish["action"], wish["to"], wish["rank"]),
        "set": lambda: slide(session, wish["key"], wish["at"]),
        "choose": lambda: session.choose(wish["name"]),
        "split": lambda: session.split(wish["on"]),
        "undo": session.undo,
        "redo": session.redo,
        "clear": session.clear,
    }
    moves[wish["what"]]()
    return ""
