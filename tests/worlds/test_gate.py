"""The gate alone: what goes, when, and in which order."""

from __future__ import annotations

from partkit.worlds.gate import Gate


class Wire:
    """Keeps the names of what was posted through a gate."""

    def __init__(self) -> None:
        self.gate, self.posted = Gate(), ""

    def send(self, name: str, channel: str | None = None) -> None:
        self.gate.hold(lambda: setattr(self, "posted", self.posted + name), channel or name)


def test_nothing_goes_until_it_is_let_go() -> None:
    wire = Wire()
    for name in "abc":
        wire.send(name)
    assert wire.posted == ""
    wire.gate.allow((1,))
    assert wire.posted == "b"
    wire.gate.allow((1,))  # the same order once more
    wire.gate.allow((7,))  # of a message that is not there yet
    assert wire.posted == "b"
    wire.gate.allow((2, 0))
    assert wire.posted == "bca"


def test_an_open_gate_lets_all_go_in_order_and_can_be_closed_again() -> None:
    wire = Wire()
    wire.send("a")
    wire.send("b")
    wire.gate.allow(None)
    wire.send("c")
    assert wire.posted == "abc"
    wire.gate.allow(())
    wire.send("d")
    assert wire.posted == "abc"
    wire.gate.allow((3,))
    assert wire.posted == "abcd"


def test_messages_of_one_channel_keep_their_order() -> None:
    wire = Wire()
    for name, channel in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "x")):
        wire.send(name, channel)
    wire.gate.allow((2,))
    assert wire.posted == "ac"


def test_a_new_run_counts_from_zero_and_forgets_what_was_held() -> None:
    wire = Wire()
    wire.gate.allow(None)
    wire.gate.close()
    wire.send("a")
    wire.gate.close()
    wire.send("b")
    wire.gate.allow((0,))
    assert wire.posted == "b"
