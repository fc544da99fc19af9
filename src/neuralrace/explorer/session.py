"""The state of the server: results by scene, and pending requests; all bounded."""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from neuralrace.errors import NeuralRaceError

THREADS = 2  # of each kind: one visitor's long work leaves room for another's
MOST_TOKENS = 256
QUIET = 2.0  # seconds after an answer in which a hand may still be on a slider


class SupersededError(NeuralRaceError):
    """A request whose page has sent a newer one, or is closed."""


class Token(threading.Event):
    """A request; set when its page no longer waits for the answer."""

    def check(self) -> None:
        """Stop if the request was canceled."""
        if self.is_set():
            raise SupersededError("the page has sent a newer request")


class Cache:
    """The most recently used results. A request for a result that is being computed waits for it."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._results: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def find(self, name: Hashable) -> Any:
        """Return the result if it is there, otherwise None."""
        with self._lock:
            found = self._results.get(name)
        return found.result() if found is not None and found.done() else None

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result, making it first where it is missing."""
        with self._lock:
            found = self._results.pop(name, None)
            result = self._results[name] = Future() if found is None else found
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        if found is None:
            try:
                result.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._results.pop(name, None)
                result.set_exception(error)
        return result.result()


class Session:
    """Caches, threads, and a token for the last request of each kind of each page."""

    def __init__(self) -> None:
        self.setups, self.forecasts, self.snapshots, self.trainings = Cache(32), Cache(32), Cache(24), Cache(24)
        self.theory = ThreadPoolExecutor(THREADS, "theory")
        self.training = ThreadPoolExecutor(THREADS, "training")
        self.tokens: OrderedDict[tuple[str, str], Token] = OrderedDict()
        self.closed = False
        self._waiting, self._answered = 0, -QUIET

    @property
    def busy(self) -> bool:
        """Whether a page waits for an answer, or had one a moment ago."""
        return self._waiting > 0 or time.monotonic() - self._answered < QUIET

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Mark the session as busy; entered by the one thread that answers."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting, self._answered = self._waiting - 1, time.monotonic()

    def token(self, page: str, kind: str) -> Token:
        """Return a token for a request of a page, whose earlier request of the same kind is dropped."""
        earlier = self.tokens.pop((page, kind), None)
        if earlier is not None:
            earlier.set()
        token = self.tokens[page, kind] = Token()
        while len(self.tokens) > MOST_TOKENS:
            self.tokens.popitem(last=False)[1].set()
        return token

    def close(self) -> None:
        """Drop all work; what is running stops at its next callback."""
        self.closed = True
        for token in self.tokens.values():
            token.set()
        self.theory.shutdown(wait=False, cancel_futures=True)
        self.training.shutdown(wait=False, cancel_futures=True)
