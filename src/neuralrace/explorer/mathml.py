"""The reduced equations as MathML, made from their plain text: what a browser sets as maths without a script."""

import re
from html import escape

from neuralrace.theory.reduction.system import ReducedSystem

MOST_EQUATIONS, MOST_TERMS = 8, 60
TOKEN = re.compile(r"\s*(?:B(\d+)\[(\d+)\](?:\^(\d+))?|(\d+(?:\.\d+)?)(?:e([+-]?\d+))?|([-+\[\]]))")


def equations_data(system: ReducedSystem | None, linear: bool) -> dict[str, object]:
    """Each equation of the lumped system with its numbers, what its variables stand for, and what is conserved.

    Without a reduction: the equation that was integrated, in general form.
    """
    if system is None:
        return {"equations": [_math(GATED if linear else FLOW)], "where": [], "conserved": [], "more": 0}
    written = system.equations()
    lines = [line for line in written.text.splitlines() if line.startswith("d ")]
    shown = [line for line in lines if len(line) < 40 * MOST_TERMS][:MOST_EQUATIONS]
    return {
        "equations": [_equation(line) for line in shown],
        "where": [str(variable) for variable in system.variables[:MOST_EQUATIONS]],
        "conserved": [_math(_expression(quantity)) for quantity in written.conserved[:MOST_EQUATIONS]],
        "more": len(lines) - len(shown),
    }


def _equation(line: str) -> str:
    """From "d B1[0]/dt = ..." to MathML."""
    left, _, right = line.partition("/dt = ")
    slope = f"<mfrac><mrow><mi>d</mi>{_expression(left[2:])}</mrow><mrow><mi>d</mi><mi>t</mi></mrow></mfrac>"
    return _math(f"{slope}<mo>=</mo>{_expression(right)}")


def _expression(text: str) -> str:
    """Products, sums and brackets of numbers and strengths B_edges^(mode)."""
    parts, place = [], 0
    while place < len(text.rstrip()):
        found = TOKEN.match(text, place)
        if found is None:  # a symbol that is not known is shown as it is
            return f"<mtext>{escape(text)}</mtext>"
        parts.append(_token(found))
        place = found.end()
    return f"<mrow>{''.join(parts)}</mrow>"


def _token(found: re.Match[str]) -> str:
    edges, mode, power, number, exponent, sign = found.groups()
    if edges:
        name = f"<msubsup><mi>B</mi><mn>{edges}</mn><mrow><mo>(</mo><mn>{mode}</mn><mo>)</mo></mrow></msubsup>"
        squared = f"<msup><mrow><mo>(</mo>{name}<mo>)</mo></mrow><mn>{power}</mn></msup>"
        return squared if power else name
    if number:
        value = f"<mn>{float(number):.4g}</mn>"
        return f"{value}<mo>·</mo><msup><mn>10</mn><mn>{int(exponent)}</mn></msup>" if exponent else value
    return f"<mo>{'&#8722;' if sign == '-' else sign}</mo>"


def _math(inner: str) -> str:
    return f'<math display="block">{inner}</math>'


_W = "<msub><mi>W</mi><mi>e</mi></msub>"
_SLOPE = f"<mfrac><mrow><mi>d</mi>{_W}</mrow><mrow><mi>d</mi><mi>t</mi></mrow></mfrac><mo>=</mo>"
FLOW = f"{_SLOPE}<mo>&#8722;</mo><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo>{_W}</mrow></mfrac>"
_SIGMA = "<msub><mi>Σ</mi><mi>{}</mi></msub><mo>(</mo><mi>{}</mi><mo>)</mo>"
GATED = (
    f"{_SLOPE}<munder><mo>∑</mo><mrow><mi>p</mi><mo>∋</mo><mi>e</mi></mrow></munder>"
    "<msubsup><mi>W</mi><mrow><mi>t</mi><mo>(</mo><mi>p</mi><mo>,</mo><mi>e</mi><mo>)</mo></mrow><mi>T</mi></msubsup>"
    f"<mrow><mo>[</mo>{_SIGMA.format('yx', 'p')}<mo>&#8722;</mo><munder><mo>∑</mo><mi>j</mi></munder>"
    f"<msub><mi>W</mi><mi>j</mi></msub>{_SIGMA.format('x', 'j,p')}<mo>]</mo></mrow>"
    "<msubsup><mi>W</mi><mrow><mi>s</mi><mo>(</mo><mi>p</mi><mo>,</mo><mi>e</mi><mo>)</mo></mrow><mi>T</mi></msubsup>"
)
