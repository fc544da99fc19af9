"""A certificate for the page: every assumption as a chip, and the ladder with what became of each rung."""

from typing import Any

from neuralrace.explorer.rounding import numbers
from neuralrace.theory.certificate import CHECKED, Assumption, Certificate
from neuralrace.theory.predict import LADDER

# what a visitor can do about an assumption that fails
ADVICE = {
    "a correlation on every path": "open a gate of the silent pathway where its input tells about the target",
    "aligned at hand-over": "start smaller, or train longer, so that the weights have time to align",
    "alignment of initial weights": "start smaller: the growing part of small weights aligns by itself",
    "alignment to own modes": "start smaller",
    "balance": "start smaller: what two layers differ by does not grow",
    CHECKED: "nothing is needed: the next method is taken; or start smaller",
    "decoupling": "start smaller, or take orthogonal first weights",
    "draws agree": "nothing is wrong: single networks differ as much",
    "examples and squared error": "nothing on this page: the method needs the examples themselves",
    "first step": "take a smaller learning rate, or first weights of like size in all layers",
    "flow regime": "take a smaller learning rate: descent follows the flow while rate times sharpness is below two",
    "gradient flow": "take a smaller learning rate",
    "hand-over before the end": "train longer, or start smaller",
    "independent normal neurons": "take Gaussian first weights",
    "linear nodes": "take the gated network, whose nodes are linear",
    "loss at predicted weights": "start smaller, or take fewer inputs and outputs without correlation",
    "lumping symmetry": "nothing: the variables are then kept apart",
    "modes that grow apart": "take more hidden units: modes overlap less in them",
    "mutual diagonalizability": "choose gates under which all pathways see the same modes",
    "one rectified hidden layer": "take two layers of weights",
    "open paths": "open a gate on the way from input to output",
    "own modes stay diagonal": "choose gates under which pathways do not mix each other's modes",
    "paths that can be listed": "take fewer pathways",
    "paths that share nothing": "choose a gating whose pathways are separate from input to output",
    "several wide rectified layers": "take two or more rectified layers, all of them wide",
    "small first weights": "start smaller",
    "small initial weights": "start smaller",
    "terms with a formula": "choose gates that leave every mode to one pathway, or two layers of weights",
    "weights left at hand-over": "start smaller, or take fewer inputs and outputs without correlation",
    "weights outside the modes": "start smaller, or take fewer inputs and outputs without correlation",
}


def chip(assumption: Assumption) -> dict[str, Any]:
    """One assumption, and what would change it where it fails."""
    return {
        "name": assumption.name,
        "holds": assumption.holds,
        "needed": assumption.needed,
        "residual": numbers(assumption.residual, 3),
        "tolerance": numbers(assumption.tolerance, 3),
        "detail": assumption.detail,
        "advice": "" if assumption.holds else ADVICE.get(assumption.name, ""),
    }


def certificate_data(certificate: Certificate, linear: bool) -> dict[str, Any]:
    """The chips of the method that was taken, and the rungs from strongest to most general."""
    declined = {entry.method: entry for entry in certificate.declined}
    rungs = []
    for name in dict.fromkeys(rung.name for rung in LADDER if rung.linear == linear):
        entry = declined.get(name)
        state = "taken" if name == certificate.method else "declined" if entry is not None else "not needed"
        failed = None if entry is None or state == "taken" else chip(entry.failed)
        rungs.append({"name": name, "state": state, "failed": failed})
    return {
        "method": certificate.method,
        "chips": [chip(assumption) for assumption in certificate.assumptions],
        "ladder": rungs,
        "notes": list(certificate.notes),
    }
