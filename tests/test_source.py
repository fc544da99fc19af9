"""What a caller's own optimizer or law is, told in plain values that are the same in every process."""

import dataclasses
import functools
import json

import jax
import numpy as np
import optax

import neuralrace as nr
from neuralrace.source import made_of

RATES = np.array([0.1, 0.2])


def law_of(std, rates):
    def law(problem, key):
        return nr.initial.gaussian(std * rates[0])(problem, key)

    return law


@dataclasses.dataclass
class Scaled:
    std: float

    def __call__(self, problem, key):
        return nr.initial.gaussian(self.std)(problem, key)


def test_an_optimizer_is_told_by_its_parts_and_their_numbers():
    told = made_of(optax.chain(optax.clip_by_global_norm(1.5), optax.adam(0.01, b1=0.8)))
    clip, adam = told["update_fns"]
    assert clip == {"name": "optax.clip_by_global_norm", "max_norm": 1.5}
    moments, scale = adam["update_fns"]
    assert (moments["name"], moments["b1"], moments["b2"]) == ("optax.scale_by_adam", 0.8, 0.999)
    assert scale == {"name": "optax.scale", "step_size": -0.01}
    falling = made_of(optax.sgd(optax.linear_schedule(0.5, 0.1, 20)))
    assert '"init_value": 0.5' in json.dumps(falling)
    decaying = made_of(optax.sgd(optax.exponential_decay(0.5, 10, 0.9)))  # closes over a name that it never sets
    assert '"decay_rate": 0.9' in json.dumps(decaying)
    assert json.dumps(made_of(optax.adam(0.1))) != json.dumps(made_of(optax.adam(0.2)))


def test_a_law_is_told_by_its_name_and_what_it_closes_over_and_the_rest_by_its_type():
    told = made_of(law_of(0.1, RATES))
    assert told["name"].endswith(".law_of")
    assert told["std"] == 0.1
    assert told["rates"] == {"array": [2], "digest": made_of(RATES.copy())["digest"]}
    assert made_of(Scaled(0.2))["std"] == 0.2
    assert made_of(functools.partial(law_of, rates=3))["rates"] == 3
    assert made_of(object()) == {"unread": "builtins.object"}
    assert nr.initial.as_data(Scaled(0.2)) == {"law": "own", "made": made_of(Scaled(0.2))}
    endless = []
    endless.append(endless)
    assert "unread" in json.dumps(made_of(endless))


def test_functions_of_one_name_are_told_apart_by_their_code_and_defaults():
    made = [
        optax.stateless(lambda g, w: jax.tree.map(lambda x: -0.5 * x, g)),
        optax.stateless(lambda g, w: jax.tree.map(lambda x: -0.3 * x, g)),
        *(optax.stateless(lambda g, w, part=part: jax.tree.map(lambda x: part * x, g)) for part in (-0.5, -0.3)),
    ]
    told = [json.dumps(made_of(one)) for one in made]
    assert len(set(told)) == 4
    again = optax.stateless(lambda g, w: jax.tree.map(lambda x: -0.5 * x, g))
    assert json.dumps(made_of(again)) == told[0]


def test_both_are_in_the_record_of_a_run():
    network = nr.ReLUNetwork(nr.tasks.xor().task, 2)
    settings = nr.train(network, Scaled(0.2), steps=1, optimizer=optax.adam(0.01), progress=False).settings
    assert settings["initial"]["made"]["std"] == 0.2
    assert settings["rule"]["optimizer"] == made_of(optax.adam(0.01))
