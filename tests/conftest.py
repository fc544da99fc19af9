from hypothesis import settings

# the same examples in every run; compiling a problem takes longer than hypothesis allows for one example
settings.register_profile("neuralrace", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("neuralrace")
