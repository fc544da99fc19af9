"""What is claimed of images: what pairs of every kind leave, and what moments alone say of it."""

import numpy as np
import xarray

from neuralrace.experiments.claim import Claims
from neuralrace.experiments.figures._pairs_claims import RANKS, SOURCE, ranks

GAP = 0.1  # of the first error, the distance of two learning curves


def image_claims(claim: Claims, data: xarray.Dataset) -> None:
    """What of the hypothesis, and of theory, is left on images."""
    _images(claim.shown_in("e"), data)
    _curves(claim.shown_in("f"), data)


def _images(claim: Claims, data: xarray.Dataset) -> None:
    error = data["image_error"].mean("image_seed")
    lost = {str(kind): (error.sel(objective=kind, kind="untrained") - error.sel(objective=kind, kind="trained")).values
            for kind in data["objective"].values}  # fmt: skip
    ratio, name = data["image_ratio"].values, data.attrs["data"]
    claim.ours(
        SOURCE, "On images the ratio orders how much worse untrained pairs are than trained ones, for every objective."
    )
    what = "rank correlation of ratio and difference of test errors"
    claim.at_least(what, {kind: ranks(ratio, values) for kind, values in lost.items()}, RANKS)
    claim.detail(f"{name}, {len(ratio)} kinds and numbers of pairs")
    claim.ours(SOURCE, "Cross-entropy leaves the order of the errors as the squared error has it.")
    claim.at_least(
        "rank correlation of the differences of test errors", ranks(lost["squared"], lost["cross-entropy"]), RANKS
    )
    claim.detail(
        "mean test error of untrained pairs: "
        + ", ".join(f"{kind} {float(error.sel(objective=kind, kind='untrained').mean()):.3f}" for kind in lost)
    )


def _curves(claim: Claims, data: xarray.Dataset) -> None:
    if "curve" not in data.dims:
        return
    trained, flow = data["curve_trained"].mean("draw"), data["curve_flow"].mean("draw")
    start = float(flow.isel(image_time=0, kind=0).mean())
    reduction = np.abs(data["curve_reduction"] - flow.isel(kind=0)).max() / start
    both = zip(data["left_reduction"].values, flow.isel(image_time=-1, kind=1).values, strict=True)
    ends = [f"{one:.3g} for {other:.3g}" for one, other in both]
    digits = data.attrs["data"] == "digits"
    ranges = [_ranges(data.isel(curve=place, image_time=-1, kind=1)) for place in range(data.sizes["curve"])]
    claim.ours(SOURCE, "Trained and untrained squared errors of routed images follow from Sigma_x and Sigma_yx alone.")
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
    claim.ours(
        SOURCE, "The reduction carries to images, whose inputs are not white: modes of the mean domain, one by one."
    )
    what = "largest gap of the error of trained pairs to the flow of moments, in parts of the first error,"
    claim.at_most(what, float(reduction), GAP)
    claim.detail(f"untrained pairs at the end: {'; '.join(ends)}")
    if not digits:
        claim.fails("by little; one direction of the inputs for each mode leaves more than all of them do")


def _ranges(end: xarray.Dataset) -> str:
    """Least to largest over theory's draws, and over seeds."""
    draws, seeds = end["curve_flow"].values, end["curve_trained"].values
    return f"{draws.min():.2f} to {draws.max():.2f} forecast, {seeds.min():.2f} to {seeds.max():.2f} trained"
