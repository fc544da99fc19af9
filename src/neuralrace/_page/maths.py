"""Formulas in running text, set: what is spelled in plain letters becomes Greek, italic, raised or lowered."""
# ruff: noqa: RUF001  the signs that formulas are set in

import re
from html import escape

GREEK = {
    "sigma": "σ",
    "Sigma": "Σ",
    "lambda": "λ",
    "delta": "δ",
    "Delta": "Δ",
    "tau": "τ",
    "eta": "η",
    "alpha": "α",
    "beta": "β",
    "phi": "φ",
}
SYMBOL = rf"(?:{'|'.join(GREEK)}|[A-Za-z])"
RULES = (
    (r"\$([^$]*)\$", lambda m: _plain(m[1])),  # a label of a figure
    (r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)\b", lambda m: _power(m[1], m[2], m[3])),
    (r"\bsqrt\(([^()]*)\)", lambda m: f'√<span class="root">{m[1]}</span>'),
    (r"\bsum_([a-z])\b", lambda m: f"∑<sub>{m[1]}</sub>"),
    # W_h^T, sigma_m, w_out^2, a_m(0)^(L-2)
    (rf"(?<![\w&;])({SYMBOL})_([A-Za-z]+|\d+)(?:\^([A-Z]\b|\d))?", lambda m: _symbol(m[1], m[2], m[3])),
    (r"(?<![\w&;])([A-Z])([12])\^(\d)", lambda m: _symbol(m[1], m[2], m[3])),
    (r"\^\(([^()]*)\)", lambda m: f"<sup>{m[1].replace('-', '−')}</sup>"),
    (r"(?<=[\w)\]|>])\^(-?\w+)", lambda m: f"<sup>{m[1].replace('-', '−')}</sup>"),
    (rf"(?<![\w&;])({'|'.join(GREEK)})(?![\w])", lambda m: _symbol(m[1])),
    (r"(?<![\w&;.])([A-Za-z])(?= (?:=|≥|≤) )", lambda m: f"<i>{m[1]}</i>"),
    (r"(?<![\w&;])([A-Z])/([A-Z])(?!\w)", lambda m: f"<i>{m[1]}</i>/<i>{m[2]}</i>"),
    (r"(?<=\d) x (?=\d)", lambda m: " × "),
    (r"(?<![\w.])-(?=\d)", lambda m: "−"),
    (r"log10\b", lambda m: "log<sub>10</sub>"),
)


def set_maths(text: str) -> str:
    """Plain text as HTML, escaped, with its formulas set."""
    found = escape(text, quote=False)
    for pattern, made in RULES:
        found = re.sub(pattern, made, found)
    return found


def _plain(formula: str) -> str:
    """A formula as matplotlib reads it, spelled as it would be in text."""
    return re.sub(r"\\", "", re.sub(r"(\\sqrt|\^)\{([^}]*)\}", r"\1(\2)", formula))


def _power(number: str, sign: str, exponent: str) -> str:
    raised = f"10<sup>{'−' if sign == '-' else ''}{exponent}</sup>"
    return raised if number == "1" else f"{number} × {raised}"


def _symbol(name: str, below: str = "", above: str | None = None) -> str:
    lowered = f"<sub>{below}</sub>" if below else ""
    raised = f"<sup>{above}</sup>" if above else ""
    return f"<i>{GREEK.get(name, name)}</i>{lowered}{raised}"
