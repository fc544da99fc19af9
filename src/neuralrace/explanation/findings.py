"""What was found out about one task and how far it holds: the verdict, in words and in plain values."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralrace.analysis import Agreement
from neuralrace.explanation.measures import Held, Module, Selectivity
from neuralrace.reln import Discovery, Race, Staged
from neuralrace.trajectory import Trajectory

NEAR_L1, NEAR_LOG = 0.1, 0.3  # twice what the mixed task is held to: a forecast within these explains the networks
LEARNED = 0.5  # of the first loss: networks above it have hardly learned


@dataclass(frozen=True, eq=False)
class Findings:
    """The whole story of one task.

    run: the trained ReLU networks. found: their modules, with the forecast of one constant gating. staged: the forecast
    in two stretches, for one hidden layer. race: candidate gatings in the order in which the theory lets them finish.
    """

    name: str
    settings: dict[str, Any]
    groups: np.ndarray | None = field(repr=False)
    run: Trajectory = field(repr=False)
    found: Discovery = field(repr=False)
    staged: Staged | None = field(repr=False)
    race: Race = field(repr=False)
    modules: tuple[Module, ...] = field(repr=False)
    selectivity: tuple[Selectivity, ...] = field(repr=False)
    assumptions: tuple[Held, ...] = field(repr=False)

    @property
    def agreements(self) -> dict[str, Agreement]:
        """Forecast -> its distance from the mean of the trained networks."""
        one = {} if self.found.agreement is None else {"one gating": self.found.agreement}
        return one | ({} if self.staged is None else {"two stretches": self.staged.agreement})

    @property
    def explained(self) -> bool:
        """Whether networks that learned are met by a forecast of their modules, within NEAR_L1 and NEAR_LOG."""
        near = [a.normalised_l1 <= NEAR_L1 and a.log10_gap <= NEAR_LOG for a in self.agreements.values()]
        return any(near) and self.remaining <= LEARNED

    @property
    def remaining(self) -> float:
        """The mean loss at the end over that at the start."""
        mean = self.run.loss.mean(axis=0)
        return float(mean[-1] / mean[0])

    @property
    def verdict(self) -> str:
        """The answer in two sentences."""
        count = len(self.modules)
        few = "One module explains" if count == 1 else f"{count} modules explain"
        if self.remaining > LEARNED:
            return (
                f"The networks hardly learned: {self.remaining:.0%} of the first loss is left, so there is little to "
                "explain. Give more steps, or a larger network."
            )
        best = min(self.agreements.items(), key=lambda item: item[1].normalised_l1, default=None)
        if best is None:
            return "No forecast could be made: the law of the first weights is not known."
        name, apart = best
        distance = f"normalised L1 {apart.normalised_l1:.3f}, log10 gap {apart.log10_gap:.3f}"
        asked = f"at most {NEAR_L1} and {NEAR_LOG} are asked"
        if self.explained:
            return f"{few} these networks: the forecast ({name}) is within {distance} of training; {asked}."
        return (
            f"A few modules do not explain these networks: with {count} the nearest forecast ({name}) is off by "
            f"{distance}; {asked}."
        )

    @property
    def winner(self) -> str:
        """Whether the gating that was found is the one that wins the race by theory."""
        first = self.race.runners[0].name
        return f"the race is won by: {first}" + (
            "" if first.endswith("found)") or first == "found" else "; that is not the gating that was found"
        )

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.verdict}", "", *_sections(self)])

    def summary(self) -> dict[str, Any]:
        """The report in plain values."""
        return {
            "task": self.name,
            "settings": self.settings,
            "explained": self.explained,
            "verdict": self.verdict,
            "loss": {"first": float(self.run.loss[:, 0].mean()), "last": float(self.run.loss[:, -1].mean())},
            "status": self.run.status.tolist(),
            "agreement": {name: vars(apart) for name, apart in self.agreements.items()},
            "handover": None if self.staged is None else self.staged.handover,
            "modules": [_plain(module) for module in self.modules],
            "elbow": [row._asdict() for row in self.found.table],
            "race": {
                "criterion": self.race.criterion,
                "order": [
                    {"gating": r.name, "time": _finite(r.time), "rate": r.rate, "final_loss": r.final}
                    for r in self.race.runners
                ],
            },
            "selectivity": [
                {name: value if isinstance(value, str) else value.tolist() for name, value in one._asdict().items()}
                for one in self.selectivity
            ],
            "assumptions": [held._asdict() for held in self.assumptions],
        }


def _sections(report: Findings) -> list[str]:
    lines = ["modules"]
    for module in report.modules:
        lines += [
            f"  {module.name}: {module.neurons:.0f} neurons, consistency {module.consistency:.2f}, "
            + (f"learned at time {module.learned:.3g}" if math.isfinite(module.learned) else "not learned"),
            f"      on for {module.responds}; writes {module.writes}",
            f"      singular values of its data {', '.join(f'{value:.3g}' for value in module.singular_values)}",
        ]
    lines += ["", "agreement with training"]
    for name, apart in report.agreements.items():
        lines.append(f"  {name}: normalised L1 {apart.normalised_l1:.3f}, log10 gap {apart.log10_gap:.3f}")
    lines += ["", f"race of gatings, no network trained: {report.winner}"]
    lines += [f"  {line}" for line in str(report.race).splitlines()]
    for one in report.selectivity:
        lines += ["", f"selectivity of {one.layer}: share of neurons active in 0, 1, 2, ... groups"]
        for kind, shares in (("neurons", one.share), ("strength", one.share_of_strength), ("chance", one.before)):
            lines.append(f"  {kind:9s}" + " ".join(f"{share:6.1%}" for share in shares))
    lines += ["", "how far the assumptions held"]
    return [*lines, *(f"  {held.assumption}: {held.measured}" for held in report.assumptions)]


def _plain(module: Module) -> dict[str, Any]:
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(module).items()}
    return plain | {"learned": _finite(module.learned)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
