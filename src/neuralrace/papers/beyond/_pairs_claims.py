"""What is claimed of tables and images; thresholds were set after small trials and before the full run."""

import numpy as np
import xarray

from neuralrace.papers.claims import Claims, enumerated

SOURCE = "docs/theory/pairs.md"
FLOOR = 1e-5  # of the error of output zero: below this nothing is left to tell apart
WORKS = 0.01  # an untrained pair works when its error is below this part of that of output zero
FACTOR = 0.3  # log10: a forecast within a factor of two
CLOSE = 0.1  # log10: two forecasts within a quarter of each other
CURVE = 0.5  # log10: one curve within a factor of three
RANKS = 0.9  # rank correlation
GAP = 0.1  # of the first error, the distance of two learning curves


def select(data: xarray.Dataset, mask: xarray.DataArray) -> xarray.Dataset:
    """Some of the tables."""
    return data.isel(table=np.flatnonzero(mask.values))


def all_kinds(data: xarray.Dataset, leaky: bool) -> xarray.Dataset:
    """All kinds of pairs at one scale, depth and width."""
    return select(data, (data["series"] == "kinds") & (data["leaky"] == leaky))


def claims(data: xarray.Dataset) -> Claims:
    """The hypothesis, what theory says instead, and what of both is left on images."""
    claim = Claims()
    _hypothesis(claim.shown_in("a"), data)
    _forecasts(claim.shown_in("c"), data)
    _leaky(claim.shown_in("d"), data)
    _scale(claim.shown_in("c"), data)
    _images(claim.shown_in("e"), data)
    if "curve" in data.dims:
        _image_curves(claim.shown_in("f"), data)
    return claim


def _untrained(data: xarray.Dataset) -> np.ndarray:
    """The median over seeds of the error of untrained pairs."""
    return np.asarray(data["error"].isel(kind=1).median("seed").values)


def _log(values: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(values, FLOOR))


def _apart(forecast: np.ndarray, measured: np.ndarray) -> float:
    """The median distance of their log10."""
    return float(np.median(np.abs(_log(forecast) - _log(measured))))


def ranks(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation; NaN where one of them is constant, or there is none."""
    from scipy.stats import spearmanr  # half a second of imports

    if len(np.unique(one)) < 2 or len(np.unique(other)) < 2:
        return float("nan")
    return float(spearmanr(one, other).statistic)


def _hypothesis(claim: Claims, data: xarray.Dataset) -> None:
    linear = all_kinds(data, leaky=False)
    errors, ratio = _untrained(linear), linear["ratio"].values
    fraction = linear["trained"].values / data.attrs["domains"]
    by_fraction = ranks(-fraction, errors)
    claim.finding(
        SOURCE,
        "The ratio of the second to the first singular value of the trained pairs orders the errors of untrained "
        "pairs, over circulant, random regular, block and hub-like pairs.",
        "a, b",
    )
    claim.at_least("rank correlation of ratio and error", ranks(ratio, errors), RANKS)
    claim.detail(f"that of the fraction of pairs that are trained is {by_fraction:.3g}")
    claim.finding(SOURCE, "At one scale and depth the errors of all kinds of pairs fall on one curve of that ratio.")
    what = "median distance of log10 of the error from the curve of circulant pairs at the same ratio"
    claim.at_most(what, _off_curve(linear, linear), CURVE)
    claim.fails(
        "all kinds in which every domain is in K pairs do; hub-like pairs lie more than "
        "ten times above, since their first mode is not the uniform one"
    )
    claim.finding(
        SOURCE,
        "After dividing by the numbers of pairs of their domains hub-like pairs fall on that curve too. This was "
        "found on the hub-like pairs above, and is tested on others.",
    )
    what = "median distance of log10 of the error from the curve of circulant pairs at the same levelled ratio"
    claim.at_most(what, _off_curve(linear, select(data, data["series"] == "fresh"), "levelled"), CURVE)
    claim.finding(SOURCE, "Random regular pairs need fewer trained pairs than P1's circulant ones.", "b")
    claim.falling(
        f"least K with an untrained error below {WORKS:.0%} of that of output zero",
        [_least(linear, errors, name) for name in ("circulant", "regular")],
        "the kind, circulant and regular,",
    )
    claim.detail(f"of {data.attrs['domains']} domains")


def _off_curve(data: xarray.Dataset, tried: xarray.Dataset, by: str = "ratio") -> dict[str, float]:
    """By kind of pairs, the median distance from the circulants' curve, within the ratios that they reach."""
    own = select(data, data["pairs"] == "circulant").sortby(by)
    found: dict[str, float] = {}
    if not own.sizes["table"]:
        return found
    for name in dict.fromkeys(tried["pairs"].values):
        others = select(tried, tried["pairs"] == name)
        inside = (others[by] >= own[by].min()) & (others[by] <= own[by].max() + 1e-9)
        others = select(others, inside)
        on_curve = np.interp(others[by].values, own[by].values, _log(_untrained(own)))
        off = np.abs(_log(_untrained(others)) - on_curve)
        if name != "circulant":
            found[str(name)] = float(np.median(off)) if len(off) else float("nan")
    return found


def _least(data: xarray.Dataset, errors: np.ndarray, name: str) -> float:
    """The least K from which on untrained pairs work; inf if none does."""
    own = data["pairs"].values == name
    trained, works = data["trained"].values[own], errors[own] < WORKS
    return float(min((k for k in trained if works[trained >= k].all()), default=np.inf))


def _forecasts(claim: Claims, data: xarray.Dataset) -> None:
    three = select(data, (data["depth"] == 3) & ~data["leaky"])
    regular = select(data, data["closed"].notnull())
    wide, measured = three["wide"].isel(kind=1).values, _untrained(three)
    depths = {f"depth {d}": select(data, data["depth"] == d) for d in np.unique(data["depth"]) if d != 3}
    linear = all_kinds(data, leaky=False)
    names = dict.fromkeys(linear["pairs"].values)
    expected = {name: _least(linear, linear["wide"].isel(kind=1).values, name) for name in names}
    found = {name: _least(linear, _untrained(linear), name) for name in names}
    missed = [0.0 if expected[name] == found[name] else abs(expected[name] - found[name]) for name in names]
    claim.finding(
        SOURCE,
        "The flow at infinite width, which knows nothing that is random, says before training what untrained pairs "
        "will have learned, for every kind of pairs, from all scales.",
    )
    claim.at_most("median distance of log10 of forecast and measured error", _apart(wide, measured), FACTOR)
    claim.detail(f"largest {np.max(np.abs(_log(wide) - _log(measured))):.2g}, of {len(wide)} tables")
    text = "Where every domain is in K pairs, the closed form gives the errors of that flow, at every depth and scale."
    claim.check(SOURCE, text)
    off = np.abs(_log(regular["wide"].isel(kind=1).values) - _log(regular["closed"].values))
    claim.at_most("largest distance of log10 of the two", np.max(off), CLOSE)
    claim.detail(f"median {np.median(off):.2g}, of {len(off)} tables")
    claim.finding(SOURCE, "The closed form holds at other depths.")
    what = "median distance of log10 of forecast and measured error"
    claim.at_most(
        what, {name: _apart(part["closed"].values, _untrained(part)) for name, part in depths.items()}, FACTOR
    )
    flows = {name: _apart(part["wide"].isel(kind=1).values, _untrained(part)) for name, part in depths.items()}
    claim.detail(f"flow at infinite width: {enumerated(flows)}")
    claim.fails(
        "at depth two it does; at depth four it agrees with the flow at infinite width, and networks of this width "
        "lose more than both"
    )
    claim.finding(SOURCE, "The least K that works is the one that is forecast, for each kind of pairs.")
    claim.at_most("largest difference of forecast and measured K", max(missed), 1)
    claim.detail(", ".join(f"{name} {found[name]:g} for {expected[name]:g}" for name in names))
    _width_claim(claim, data)


def _width_claim(claim: Claims, data: xarray.Dataset) -> None:
    """Tables that differ in width only, at a width at a time."""
    chosen = select(data, data["series"] == "widths")
    off = np.abs(_log(chosen["wide"].isel(kind=1).values) - _log(_untrained(chosen)))
    widths = np.unique(chosen["width"].values)
    means = [float(off[chosen["width"].values == width].mean()) for width in widths]
    claim.finding(SOURCE, "What the flow at infinite width leaves out falls with the width.")
    claim.falling("mean distance of log10 of forecast and measured error", means, f"width, {widths.tolist()},")


def _leaky(claim: Claims, data: xarray.Dataset) -> None:
    leaky = all_kinds(data, leaky=True)
    errors = _untrained(leaky)
    least = [_least(leaky, errors, name) for name in ("circulant", "regular")]
    claim.finding(SOURCE, "With leaky ReLU the ratio orders the errors too.")
    claim.at_least("rank correlation of ratio and error", ranks(leaky["ratio"].values, errors), RANKS)
    claim.detail(f"least K that works: circulant {least[0]:g}, regular {least[1]:g}")
    claim.fails("nearly; blocks transfer better than their ratio says")
    claim.finding(SOURCE, "With leaky ReLU all kinds of pairs fall on one curve of the ratio.")
    what = "median distance of log10 of the error from the curve of circulant pairs at the same ratio"
    claim.at_most(what, _off_curve(leaky, leaky), CURVE)
    claim.fails("neither blocks, which lie below, nor hub-like pairs, which lie above")


def _scale(claim: Claims, data: xarray.Dataset) -> None:
    claim.finding(SOURCE, "The larger the first weights, the more is lost.")
    middle = data["trained"].values[data["series"] == "scales"][0]  # the K of which several scales were tried
    usual = (data["series"] == "kinds") & ~data["leaky"] & (data["trained"] == middle)
    for name in ("circulant", "regular"):
        own = select(data, (data["pairs"] == name) & (usual | (data["series"] == "scales"))).sortby("gain")
        claim.rising(f"error of untrained pairs, {name}", _untrained(own), "scale")


def _images(claim: Claims, data: xarray.Dataset) -> None:
    error = data["image_error"].mean("image_seed")
    lost = {str(kind): (error.sel(objective=kind, kind="untrained") - error.sel(objective=kind, kind="trained")).values
            for kind in data["objective"].values}  # fmt: skip
    ratio, name = data["image_ratio"].values, data.attrs["data"]
    text = "On images the ratio orders how much worse untrained pairs are than trained ones, for every objective."
    claim.finding(SOURCE, text)
    what = "rank correlation of ratio and difference of test errors"
    claim.at_least(what, {kind: ranks(ratio, values) for kind, values in lost.items()}, RANKS)
    claim.detail(f"{name}, {len(ratio)} kinds and numbers of pairs")
    claim.finding(SOURCE, "Cross-entropy leaves the order of the errors as the squared error has it.")
    what = "rank correlation of the differences of test errors"
    claim.at_least(what, ranks(lost["squared"], lost["cross-entropy"]), RANKS)
    claim.detail(
        "mean test error of untrained pairs: "
        + ", ".join(f"{kind} {float(error.sel(objective=kind, kind='untrained').mean()):.3f}" for kind in lost)
    )


def _image_curves(claim: Claims, data: xarray.Dataset) -> None:
    trained, flow = data["curve_trained"].mean("draw"), data["curve_flow"].mean("draw")
    start = float(flow.isel(image_time=0, kind=0).mean())
    reduction = np.abs(data["curve_reduction"] - flow.isel(kind=0)).max() / start
    both = zip(data["left_reduction"].values, flow.isel(image_time=-1, kind=1).values, strict=True)
    ends = [f"{one:.3g} for {other:.3g}" for one, other in both]
    digits = data.attrs["data"] == "digits"
    ranges = [_ranges(data.isel(curve=place, image_time=-1, kind=1)) for place in range(data.sizes["curve"])]
    claim.finding(SOURCE, "Squared errors of routed images, trained and untrained, follow from the moments alone.")
    claim.at_most(
        "largest gap of the flow of moments to training, means over draws and seeds, in parts of the first error,",
        {str(kind): float(abs(flow - trained).sel(kind=kind).max() / start) for kind in data["kind"].values},
        GAP,
    )
    claim.detail(f"untrained pairs at the end: {'; '.join(ranges)}")
    if digits:
        claim.fails(
            "trained ones do; untrained ones differ from draw to draw by more than this, and four draws do not tell "
            "their mean"
        )
    text = "The reduction carries to images, whose inputs are not white: modes of the mean domain, one by one."
    claim.finding(SOURCE, text)
    what = "largest gap of the error of trained pairs to the flow of moments, in parts of the first error,"
    claim.at_most(what, float(reduction), GAP)
    claim.detail(f"untrained pairs at the end: {'; '.join(ends)}")
    if not digits:
        claim.fails("by little; one direction of the inputs for each mode leaves more than all of them do")


def _ranges(end: xarray.Dataset) -> str:
    """Least to largest over theory's draws, and over seeds."""
    draws, seeds = end["curve_flow"].values, end["curve_trained"].values
    return f"{draws.min():.2f} to {draws.max():.2f} forecast, {seeds.min():.2f} to {seeds.max():.2f} trained"
