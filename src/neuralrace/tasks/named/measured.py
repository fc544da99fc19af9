"""Small sets of measured data that come with scikit-learn: flowers, wines, handwritten digits, patients."""

from neuralrace.tasks.files import from_frame
from neuralrace.tasks.registry import NamedTask, register


@register
def iris(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Three kinds of iris by four lengths (Fisher 1936), 150 flowers. Groups: "class"."""
    return _measured("iris", standardize, bias)


@register
def wine(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Three growers of wine by thirteen measurements, 178 wines. Groups: "class"."""
    return _measured("wine", standardize, bias)


@register
def digits(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Ten handwritten digits of 8 x 8 pixels, of which 61 vary, 1797 images. Groups: "class"."""
    return _measured("digits", standardize, bias)


@register
def diabetes(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Progression of diabetes after a year by ten measurements, 442 patients."""
    return _measured("diabetes", standardize, bias)


def _measured(name: str, standardize: bool, bias: bool) -> NamedTask:
    """The data without constant columns; one output for each class."""
    from sklearn import datasets  # a second of imports that other tasks do not need

    found = getattr(datasets, f"load_{name}")(as_frame=True)
    frame, kinds = found.data.loc[:, found.data.nunique() > 1], found.get("target_names")
    title = "progression" if kinds is None else "class"
    frame = frame.assign(**{title: found.target if kinds is None else kinds.astype(str)[found.target]})
    return from_frame(frame, title, classes=kinds is not None, standardize=standardize, bias=bias)
