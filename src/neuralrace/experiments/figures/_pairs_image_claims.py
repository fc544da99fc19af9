"""What is claimed of images: what pairs of every kind leave, and what moments alone say of it."""

import numpy as np
import xarray

from neuralrace.experiments.claim import HOLDS, Claim, shown
from neuralrace.experiments.figures._pairs_claims import RANKS, SOURCE, ranks

GAP = 0.1  # of the first error, the distance of two learning curves


def image_claims(data: xarray.Dataset) -> list[Claim]:
    """What of the hypothesis, and of theory, is left on images."""
    return [*shown("e", _images(data)), *shown("f", _curves(data))]


def _images(data: xarray.Dataset) -> list[Claim]:
    error = data["image_error"].mean("image_seed")
    lost = {str(kind): (error.sel(objective=kind, kind="untrained") - error.sel(objective=kind, kind="trained")).values
            for kind in data["objective"].values}  # fmt: skip
    ratio, name = data["image_ratio"].values, data.attrs["data"]
    return [
        Claim.at_least(
            "On images the ratio orders how much worse untrained pairs are than trained ones, for every objective.",
            SOURCE,
            "ours",
            "rank correlation of ratio and difference of test errors",
            {kind: ranks(ratio, values) for kind, values in lost.items()},
            RANKS,
            detail=f"{name}, {len(ratio)} kinds and numbers of pairs",
        ),
        Claim.at_least(
            "Cross-entropy leaves the order of the errors as the squared error has it.",
            SOURCE,
            "ours",
            "rank correlation of the differences of test errors",
            ranks(lost["squared"], lost["cross-entropy"]),
            RANKS,
            detail="mean test error of untrained pairs: "
            + ", ".join(f"{kind} {float(error.sel(objective=kind, kind='untrained').mean()):.3f}" for kind in lost),
        ),
    ]


def _curves(data: xarray.Dataset) -> list[Claim]:
    if "curve" not in data.dims:
        return []
    trained, flow = data["curve_trained"].mean("draw"), data["curve_flow"].mean("draw")
    start = float(flow.isel(image_time=0, kind=0).mean())
    reduction = np.abs(data["curve_reduction"] - flow.isel(kind=0)).max() / start
    both = zip(data["left_reduction"].values, flow.isel(image_time=-1, kind=1).values, strict=True)
    ends = [f"{one:.3g} for {other:.3g}" for one, other in both]
    digits = data.attrs["data"] == "digits"
    ranges = [_ranges(data.isel(curve=place, image_time=-1, kind=1)) for place in range(data.sizes["curve"])]
    return [
        Claim.at_most(
            "Trained and untrained squared errors of routed images follow from Sigma_x and Sigma_yx alone.",
            SOURCE,
            "ours",
            "largest gap of the flow of moments to training, means over draws and seeds, in parts of the first error,",
            {str(kind): float(abs(flow - trained).sel(kind=kind).max() / start) for kind in data["kind"].values},
            GAP,
            detail=f"untrained pairs at the end: {'; '.join(ranges)}",
            on_record="does not hold: trained ones do; untrained ones differ from draw to draw by more than this, and "
            "four draws do not tell their mean"
            if digits
            else HOLDS,
        ),
        Claim.at_most(
            "The reduction carries to images, whose inputs are not white: modes of the mean domain, one by one.",
            SOURCE,
            "ours",
            "largest gap of the error of trained pairs to the flow of moments, in parts of the first error,",
            float(reduction),
            GAP,
            detail=f"untrained pairs at the end: {'; '.join(ends)}",
            on_record=HOLDS
            if digits
            else "does not hold: by little; one direction of the inputs for each mode leaves more than all of them do",
        ),
    ]


def _ranges(end: xarray.Dataset) -> str:
    """Least to largest over theory's draws, and over seeds."""
    draws, seeds = end["curve_flow"].values, end["curve_trained"].values
    return f"{draws.min():.2f} to {draws.max():.2f} forecast, {seeds.min():.2f} to {seeds.max():.2f} trained"
