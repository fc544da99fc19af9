"""What a page says was done is what was done."""

from neuralrace.explanation.verdicts import of_course


def test_only_a_forecast_that_came_first_is_said_to_have_come_first():
    assert of_course(foreseen=True, before=True, raced=True).startswith("First the loss and the modules were foreseen")
    for foreseen in (True, False):
        told = of_course(foreseen=foreseen, before=False, raced=False)
        assert told.startswith("These ReLU networks had been trained already")
        assert ("nothing was foreseen" in told) != foreseen
        assert "race" not in told
