"""The network of P1 section 5, and the images that it learns."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.activations import Activation, as_activation
from neuralrace.architecture import Architecture
from neuralrace.errors import ProblemError, require_count
from neuralrace.images import RoutedImages
from neuralrace.problem import BIAS

LOOKED = 256  # training images that the recorded loss is over, where training goes by mini-batches


@dataclass(frozen=True, eq=False)
class RoutedNetwork:
    """M encoders x_i -> h1, a shared layer h1 -> h2, M decoders h2 -> y_j, and the routed images that they learn.

    Every batch is shown in all input domains; the loss is the mean over the trained pairs. hidden: the width of h1 and
    of h2. activation: of both, linear unless given. biases: one for each encoder, for the shared layer and for each
    decoder. looked: with mini-batches, the recorded loss is over so many training images. tested: test images that
    errors are measured on; all, unless given.
    """

    task: RoutedImages
    hidden: int
    activation: Activation | None
    biases: bool
    looked: int
    tested: int

    def __init__(
        self,
        task: RoutedImages,
        hidden: int = 128,
        activation: Any = None,
        biases: bool = True,
        looked: int = LOOKED,
        tested: int | None = None,
    ) -> None:
        if not isinstance(task, RoutedImages):
            raise ProblemError(f"task must be routed images, tasks.routed_images(...); it was {type(task).__name__}")
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "hidden", require_count("hidden", hidden))
        object.__setattr__(self, "activation", None if activation is None else as_activation(activation))
        object.__setattr__(self, "biases", bool(biases))
        object.__setattr__(self, "looked", min(require_count("looked", looked), len(task)))
        held = len(task.base.test_labels)
        object.__setattr__(self, "tested", held if tested is None else min(require_count("tested", tested), held))

    def __repr__(self) -> str:
        return f"RoutedNetwork({self.task!r}, hidden={self.hidden}, activation={self.activation})"

    @property
    def domains(self) -> int:
        """M."""
        return len(self.task.pairs)

    @property
    def activations(self) -> dict[str, Activation]:
        """Node -> activation."""
        return {} if self.activation is None else {"h1": self.activation, "h2": self.activation}

    @cached_property
    def architecture(self) -> Architecture:
        """The graph; edges are named by their ends, the bias of encoder i "bias->h1 of xi"."""
        count, base = self.domains, self.task.base
        first, last = [f"x{i}" for i in range(count)], [f"y{j}" for j in range(count)]
        nodes: dict[str, int] = dict.fromkeys(first, int(base.images.shape[-1]))
        nodes |= dict.fromkeys(("h1", "h2"), self.hidden)
        edges = {f"{node}->h1": (node, "h1") for node in first} | {"h1->h2": ("h1", "h2")}
        edges |= {f"h2->{node}": ("h2", node) for node in last}
        if self.biases:
            nodes[BIAS] = 1
            edges |= {f"{BIAS}->h1 of {node}": (BIAS, "h1") for node in first} | {f"{BIAS}->h2": (BIAS, "h2")}
            edges |= {f"{BIAS}->{node}": (BIAS, node) for node in last}
        nodes |= dict.fromkeys(last, base.classes)
        return Architecture(nodes, edges)

    def with_pairs(self, pairs: np.ndarray) -> "RoutedNetwork":
        """The same network with other trained pairs; it shares everything else."""
        other = replace(self, task=self.task.with_pairs(pairs))
        other.__dict__["architecture"] = self.architecture
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All that training depends on, for the identity of a checkpoint."""
        base, shown = self.task.base, self.task.shown
        found = {"images": base.images, "labels": base.labels, "pairs": self.task.pairs}
        return found if shown is None else found | {"shown": shown}

    def describe(self) -> dict[str, object]:
        """What the network is, in plain values that can be stored with a result."""
        return {
            "network": "routed",
            "hidden": self.hidden,
            "activation": None if self.activation is None else self.activation.as_data(),
            "biases": self.biases,
            "looked": self.looked,
            "tested": self.tested,
            "examples": len(self.task),
            "task": dict(self.task.settings),
        }
