"""How neurons of one rectified layer grow on what is left to learn: alone while they are small, together when not.

Not by diffrax: compiling one of these short flows takes 0.85 s. Gates jump and stick, so methods of low order are the
fastest. scipy's RK23 settles active neurons in less than 0.1 s for all drops of the contextual task (0.6 s for XOR,
whose gates stick). Alone, 170 fixed steps of fourth order take 0.03 s; RK23 needs a tolerance of 1e-4 for the same
falls of this task, and with it 0.11 s there and 0.24 s in place of 0.01 for XOR.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

LONGEST = 50.0  # growth times, after which active neurons are taken as they are


@dataclass(frozen=True, eq=False)
class OneLayer:
    """Examples and rectifier. A neuron is a row (w, v) of what enters and what leaves; residuals are (N, outputs)."""

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    slope: float

    def gates(self, neurons: np.ndarray) -> np.ndarray:
        """(neurons, N): one where a neuron is on, the slope elsewhere."""
        return np.where(self.enters(neurons) @ self.inputs.T > 0, 1.0, self.slope)

    def enters(self, neurons: np.ndarray) -> np.ndarray:
        """w of each."""
        return neurons[:, : self.inputs.shape[1]]

    def leaves(self, neurons: np.ndarray) -> np.ndarray:
        """v of each."""
        return neurons[:, self.inputs.shape[1] :]

    def activity(self, neurons: np.ndarray) -> np.ndarray:
        """(neurons, N)."""
        received = self.enters(neurons) @ self.inputs.T
        return np.where(received > 0, received, self.slope * received)

    def residual(self, neurons: np.ndarray) -> np.ndarray:
        """What the neurons leave to learn."""
        return np.asarray(self.targets - self.activity(neurons).T @ self.leaves(neurons))

    def loss(self, neurons: np.ndarray) -> float:
        """Half the weighted mean squared error."""
        return 0.5 * float(self.weights @ (self.residual(neurons) ** 2).sum(axis=1))

    def velocity(self, neurons: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """d(w, v)/dt of each neuron on a residual: the gradient of its utility <r . v relu(w . x)>."""
        wanted = self.weights[:, None] * residual
        driven = self.gates(neurons) * (self.leaves(neurons) @ wanted.T)
        return np.hstack([driven @ self.inputs, self.activity(neurons) @ wanted])

    def alone(self, neurons: np.ndarray, residual: np.ndarray, step: float) -> np.ndarray:
        """The neurons a time later on a residual that does not change: one step of Runge and Kutta."""
        first = self.velocity(neurons, residual)
        second = self.velocity(neurons + 0.5 * step * first, residual)
        third = self.velocity(neurons + 0.5 * step * second, residual)
        fourth = self.velocity(neurons + step * third, residual)
        return neurons + step / 6 * (first + 2 * second + 2 * third + fourth)

    def rates(self, neurons: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At which rate the direction of each neuron grows, and the strength that would serve it best alone."""
        norms = np.linalg.norm(self.enters(neurons), axis=1), np.linalg.norm(self.leaves(neurons), axis=1)
        active = self.activity(neurons) / np.maximum(norms[0], np.finfo(float).tiny)[:, None]
        sent = self.leaves(neurons) / np.maximum(norms[1], np.finfo(float).tiny)[:, None]
        rate = np.einsum("mn,n,no,mo->m", active, self.weights, residual, sent)
        size = active**2 @ self.weights
        return rate, np.divide(rate, size, out=np.zeros_like(rate), where=size > 0)

    def correlation(self, gate: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """<g r x^T>, (outputs, inputs)."""
        return np.asarray((self.weights * gate * residual.T) @ self.inputs)

    def settle(self, neurons: np.ndarray, rate: float, little: float) -> np.ndarray:
        """Where the flow takes active neurons that no others join: until the loss falls by little in 1 / rate."""
        shape = neurons.shape

        def flow(_: float, state: np.ndarray) -> np.ndarray:
            rows = state.reshape(shape)
            return self.velocity(rows, self.residual(rows)).ravel()

        def fall(time: float, state: np.ndarray) -> float:
            return float(np.sum(flow(time, state) ** 2)) - little * rate

        fall.terminal, fall.direction = True, -1.0  # type: ignore[attr-defined]
        solved = solve_ivp(flow, (0.0, LONGEST / rate), neurons.ravel(), "RK23", rtol=1e-3, atol=1e-6, events=fall)
        return np.asarray(solved.y[:, -1].reshape(shape))
