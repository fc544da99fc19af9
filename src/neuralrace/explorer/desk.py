"""The desk where requests are worked on: few threads, results kept by scene, older requests of a page dropped."""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.tables import Tables

Value = TypeVar("Value")
THREADS = 2  # of each kind: one visitor's long work leaves room for another's
PAGES = 256
QUIET = 2.0  # seconds after an answer in which a hand may still be on a slider


class SupersededError(NeuralRaceError):
    """A request whose page has asked for something newer, or has gone away."""


class Token(threading.Event):
    """Whether anybody still waits for a piece of work; set once nobody does."""

    def check(self) -> None:
        """Stop here if nobody waits."""
        if self.is_set():
            raise SupersededError("the page has asked for something newer")


class Kept(Generic[Value]):
    """The results used last, at most so many."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def find(self, name: Hashable) -> Value | None:
        """What is kept under a name."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
            return self._values.get(name)

    def keep(self, name: Hashable, value: Value) -> Value:
        """Keep a value, and let the one go that was not used for longest."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def get(self, name: Hashable, make: Callable[[], Value]) -> Value:
        """What is kept, or else made and kept. Who asks for what is being made waits for it; others do not wait."""
        with self._lock:
            turn = self._making.setdefault(name, threading.Lock())
        try:
            with turn:
                found = self.find(name)
                return self.keep(name, make()) if found is None else found
        finally:
            with self._lock:
                self._making.pop(name, None)


class Desk:
    """Everything that the server remembers. All of it is bounded."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.stages: Kept[Any] = Kept(32)
        self.forecasts: Kept[Any] = Kept(32)
        self.machines: Kept[Any] = Kept(24)
        self.trainings: Kept[Any] = Kept(24)
        self.theory = ThreadPoolExecutor(THREADS, "theory")
        self.training = ThreadPoolExecutor(THREADS, "training")
        self._tokens: OrderedDict[tuple[str, str], Token] = OrderedDict()
        self._asked, self._answered = 0, -QUIET
        self.closed = False

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer, or had one a moment ago."""
        return self._asked > 0 or time.monotonic() - self._answered < QUIET

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """While somebody waits; entered by the one thread that answers."""
        self._asked += 1
        try:
            yield
        finally:
            self._asked, self._answered = self._asked - 1, time.monotonic()

    def token(self, page: str, kind: str) -> Token:
        """A token for a request of a page; the page's earlier request of the same kind is dropped."""
        earlier = self._tokens.pop((page, kind), None)
        if earlier is not None:
            earlier.set()
        token = self._tokens[page, kind] = Token()
        while len(self._tokens) > PAGES:
            self._tokens.popitem(last=False)[1].set()
        return token

    def close(self) -> None:
        """Drop all work; what runs stops at its next look."""
        self.closed = True
        for token in self._tokens.values():
            token.set()
        self.theory.shutdown(wait=False, cancel_futures=True)
        self.training.shutdown(wait=False, cancel_futures=True)
