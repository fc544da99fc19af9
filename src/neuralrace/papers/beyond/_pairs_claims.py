"""The claims of `pairs`; thresholds were set after small trials and before the full run."""

import numpy as np
import xarray

from neuralrace.papers.claims import Claims, enumerated

SOURCE = "docs/theory/pairs.md"
FLOOR = 1e-5  # of the error of output zero: errors below this are equal
WORKS = 0.01  # an untrained pair works when its error is below this fraction of that of output zero
FACTOR = 0.3  # log10: a forecast within a factor of two
CLOSE = 0.1  # log10: two forecasts within a quarter of each other
CURVE = 0.5  # log10: one curve within a factor of three
RANKS = 0.9  # rank correlation
GAP = 0.1  # of the first error, the distance of two learning curves


def select(data: xarray.Dataset, mask: xarray.DataArray) -> xarray.Dataset:
    """Return some of the tables."""
    return data.isel(table=np.flatnonzero(mask.values))


def all_kinds(data: xarray.Dataset, leaky: bool) -> xarray.Dataset:
    """Return all kinds of pairs at one scale, depth and width."""
    return select(data, (data["series"] == "kinds") & (data["leaky"] == leaky))


def claims(data: xarray.Dataset) -> Claims:
    """Measure the hypothesis, what theory says instead, and both on images."""
    claim = Claims()
    _hypothesis(claim.shown_in("a"), data)
    _forecasts(claim.shown_in("c"), data)
    _leaky(claim.shown_in("d"), data)
    _images(claim.shown_in("e"), data)
    if "curve" in data.dims:
        _image_curves(claim.shown_in("f"), data)
    return claim


def _untrained(data: xarray.Dataset, name: str = "error") -> np.ndarray:
    """Return the errors of untrained pairs, their median over seeds where these were trained."""
    errors = data[name].isel(kind=1)
    return np.asarray((errors.median("seed") if "seed" in errors.dims else errors).values)


def _log(values: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(values, FLOOR))


def _distance(forecast: np.ndarray, measured: np.ndarray) -> np.ndarray:
    return np.abs(_log(forecast) - _log(measured))


def ranks(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's rank correlation, NaN where one of them is constant."""
    from scipy.stats import spearmanr  # half a second of imports

    constant = len(np.unique(one)) < 2 or len(np.unique(other)) < 2
    return float("nan") if constant else float(spearmanr(one, other).statistic)


def _off_curve(data: xarray.Dataset, tried: xarray.Dataset, by: str = "ratio") -> dict[str, float]:
    """Return by kind the median distance from the curve of circulants, within the ratios that they reach."""
    own = select(data, data["pairs"] == "circulant").sortby(by)
    found: dict[str, float] = {}
    for name in dict.fromkeys(tried["pairs"].values) if own.sizes["table"] else ():
        others = select(tried, tried["pairs"] == name)
        others = select(others, (others[by] >= own[by].min()) & (others[by] <= own[by].max() + 1e-9))
        on_curve = np.interp(others[by].values, own[by].values, _log(_untrained(own)))
        off = np.abs(_log(_untrained(others)) - on_curve)
        if name != "circulant":
            found[str(name)] = float(np.median(off)) if len(off) else float("nan")
    return found


def _least(data: xarray.Dataset, errors: np.ndarray, name: str) -> float:
    """Return the least K from which on untrained pairs work, or inf."""
    own = data["pairs"].values == name
    trained, works = data["trained"].values[own], errors[own] < WORKS
    return float(min((k for k in trained if works[trained >= k].all()), default=np.inf))


def _hypothesis(claim: Claims, data: xarray.Dataset) -> None:
    linear = all_kinds(data, leaky=False)
    errors, domains = _untrained(linear), data.attrs["domains"]
    claim.finding(
        SOURCE,
        "The ratio of the second to the first singular value of the trained pairs orders the errors of untrained "
        "pairs, over circulant, random regular, block and hub-like pairs.",
        "a, b",
    )
    claim.at_least("rank correlation of ratio and error", ranks(linear["ratio"].values, errors), RANKS)
    by_fraction = ranks(-linear["trained"].values / domains, errors)
    claim.detail(f"for the fraction of trained pairs it is {by_fraction:.3g}")
    claim.finding(SOURCE, "At one scale and depth the errors of all kinds of pairs fall on one curve of that ratio.")
    what = "median distance of log10 of the error from the curve of circulant pairs at the same"
    claim.at_most(f"{what} ratio", _off_curve(linear, linear), CURVE)
    claim.fails(
        "all kinds in which every domain is in K pairs do; hub-like pairs lie more than ten times above, since their "
        "first mode is not the uniform one"
    )
    claim.finding(
        SOURCE,
        "After dividing by the numbers of pairs of their domains hub-like pairs fall on that curve too. This was "
        "found on the hub-like pairs above, and is tested on others.",
    )
    fresh = select(data, data["series"] == "fresh")
    claim.at_most(f"{what} levelled ratio", _off_curve(linear, fresh, "levelled"), CURVE)
    claim.finding(SOURCE, "Random regular pairs need fewer trained pairs than P1's circulant ones.", "b")
    least = [_least(linear, errors, name) for name in ("circulant", "regular")]
    what = f"least K with an untrained error below {WORKS:.0%} of that of output zero"
    claim.falling(what, least, "the kind, circulant and regular,")
    claim.detail(f"of {domains} domains")


def _forecasts(claim: Claims, data: xarray.Dataset) -> None:
    what = "distance of log10 of forecast and measured error"
    claim.finding(
        SOURCE,
        "The flow at infinite width, which knows nothing that is random, says before training what untrained pairs "
        "will have learned, for every kind of pairs, from all scales.",
    )
    three = select(data, (data["depth"] == 3) & ~data["leaky"])
    off = _distance(_untrained(three, "wide"), _untrained(three))
    claim.at_most(f"median {what}", np.median(off), FACTOR)
    claim.detail(f"largest {off.max():.2g}, of {len(off)} tables")
    text = "Where every domain is in K pairs, the closed form gives the errors of that flow, at every depth and scale."
    claim.check(SOURCE, text)
    regular = select(data, data["closed"].notnull())
    off = _distance(_untrained(regular, "wide"), regular["closed"].values)
    claim.at_most("largest distance of log10 of the two", np.max(off), CLOSE)
    claim.detail(f"median {np.median(off):.2g}, of {len(off)} tables")
    claim.finding(SOURCE, "The closed form holds at other depths.")
    closed, flows = {}, {}
    for depth in np.unique(data["depth"]):
        part = select(data, data["depth"] == depth)
        if depth != 3:
            closed[f"depth {depth}"] = float(np.median(_distance(part["closed"].values, _untrained(part))))
            flows[f"depth {depth}"] = float(np.median(_distance(_untrained(part, "wide"), _untrained(part))))
    claim.at_most(f"median {what}", closed, FACTOR)
    claim.detail(f"flow at infinite width: {enumerated(flows)}")
    claim.fails(
        "at depth two it does; at depth four it agrees with the flow at infinite width, and networks of this width "
        "lose more than both"
    )
    claim.finding(SOURCE, "The least K that works is the one that is forecast, for each kind of pairs.")
    linear = all_kinds(data, leaky=False)
    least = {
        name: (_least(linear, _untrained(linear), name), _least(linear, _untrained(linear, "wide"), name))
        for name in dict.fromkeys(linear["pairs"].values)
    }
    missed = [0.0 if found == expected else abs(expected - found) for found, expected in least.values()]
    claim.at_most("largest difference of forecast and measured K", max(missed), 1)
    claim.detail(", ".join(f"{name} {found:g} for {expected:g}" for name, (found, expected) in least.items()))


def _leaky(claim: Claims, data: xarray.Dataset) -> None:
    leaky = all_kinds(data, leaky=True)
    errors = _untrained(leaky)
    least = [_least(leaky, errors, name) for name in ("circulant", "regular")]
    claim.finding(SOURCE, "With leaky ReLU the ratio orders the errors too.")
    claim.at_least("rank correlation of ratio and error", ranks(leaky["ratio"].values, errors), RANKS)
    claim.detail(f"least K that works: circulant {least[0]:g}, regular {least[1]:g}")
    claim.fails("nearly; blocks transfer better than their ratio says")


def _images(claim: Claims, data: xarray.Dataset) -> None:
    error, ratio = data["image_error"].mean("image_seed"), data["image_ratio"].values
    lost = error.sel(kind="untrained") - error.sel(kind="trained")
    text = "On images the ratio orders how much worse untrained pairs are than trained ones, for every objective."
    claim.finding(SOURCE, text)
    what = "rank correlation of ratio and difference of test errors"
    claim.at_least(
        what, {str(kind): ranks(ratio, lost.sel(objective=kind).values) for kind in lost["objective"].values}, RANKS
    )
    claim.detail(f"{data.attrs['data']}, {len(ratio)} kinds and numbers of pairs")


def _image_curves(claim: Claims, data: xarray.Dataset) -> None:
    trained, flow = data["curve_trained"].mean("draw"), data["curve_flow"].mean("draw")
    start, digits = float(flow.isel(image_time=0, kind=0).mean()), data.attrs["data"] == "digits"
    ends = data.isel(image_time=-1, kind=1)
    claim.finding(SOURCE, "Squared errors of routed images, trained and untrained, follow from the moments alone.")
    gaps = {str(kind): float(abs(flow - trained).sel(kind=kind).max() / start) for kind in data["kind"].values}
    what = "largest gap of the flow of moments to training, means over draws and seeds, in parts of the first error,"
    claim.at_most(what, gaps, GAP)
    ranges = []
    for place in range(data.sizes["curve"]):
        draws, seeds = (ends[name].isel(curve=place).values for name in ("curve_flow", "curve_trained"))
        found = f"{draws.min():.2f} to {draws.max():.2f} forecast, {seeds.min():.2f} to {seeds.max():.2f} trained"
        ranges.append(found)
    claim.detail(f"untrained pairs at the end: {'; '.join(ranges)}")
    if digits:
        claim.fails(
            "trained ones do; untrained ones differ from draw to draw by more than this, and four draws do not tell "
            "their mean"
        )
