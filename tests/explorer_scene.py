"""The one small scene that the tests of the explorer share, so that its shapes are compiled once, and its server."""

from typing import NamedTuple

from neuralrace.explorer.session import Session

SMALL = {
    "task": "xor",
    "settings": {"delta": 0.5},
    "gating": "xor",
    "width": 4,
    "seeds": 2,
    "steps": 60,
    "scale": 0.005,
    "rate": 0.4,
}
LINK = "task=xor&s.delta=0.5&gating=xor&width=4&seeds=2&steps=60&scale=0.005&rate=0.4"  # the same as an address


class Served(NamedTuple):
    """Where the explorer answers, and what it remembers."""

    address: str
    port: int
    session: Session
