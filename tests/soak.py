"""A long trial, bounded in time: python tests/soak.py [seconds] [--forecasts]. Other examples and moments every time.

First thousands of random forecasts against the exact flow (`random_forecasts.py`), in a process for each core; these
alone with --forecasts. Then `test_bad_input.py` with thousands of examples and all bad inputs of its corpus, and every
command of `kills.py` is killed at random moments, some of them twice, and must end with the same results as one that
was not.
"""

import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax

import kills
import random_forecasts
from neuralrace.errors import RangeError

PROPERTIES = [str(Path(__file__).parent / "test_bad_input.py")]
FORECASTS, SHARE = 0.6, 0.15  # of the time: for the forecasts, and for the properties
SEEDS = 10  # of each shape, which compiles once
PROGRAMS = 40  # shapes after which compiled programs are dropped


def main(seconds: float, seed: int) -> int:
    """Try until the time is over; the number of failures."""
    print(f"soak: {seconds:.0f} s, seed {seed}")
    end, chance = time.monotonic() + seconds, random.Random(seed)
    failures = forecasts(FORECASTS * seconds, seed) + _properties(SHARE * seconds)
    with tempfile.TemporaryDirectory() as place:
        whole = {name: Path(place) / "whole" / name for name in kills.COMMANDS}
        count = 0
        while True:
            left = end - time.monotonic()
            names = [name for name, command in kills.COMMANDS.items() if 4 * command.seconds < left]
            if not names:
                break
            name = chance.choice(names)
            if not whole[name].exists() and (status := kills.finish(name, whole[name], left)) not in (0, 1):
                print(f"{name}: {'no time' if status is None else 'fails'} without being killed")
                return failures + (status is not None)
            count += 1
            failures += not _killed(name, Path(place) / str(count), whole[name], chance, end)
    print(f"soak: {count} commands killed, {failures} failures")
    return failures


def _properties(seconds: float) -> int:
    options = ["-n", "0", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=soak"]
    try:
        ran = subprocess.run([sys.executable, "-m", "pytest", *options, *PROPERTIES], timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print("properties: none failed in their time")
        return 0
    return int(ran.returncode != 0)


def forecasts(seconds: float, seed: int) -> int:
    """Compare random forecasts with the exact flow; the number of certificates that hold and break their promise."""
    cores = os.cpu_count() or 1
    print(f"forecasts: {seconds:.0f} s on {cores} cores, seed {seed}", flush=True)
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_forecasts, [seconds] * cores, range(seed, seed + cores)))
    total: Counter[str] = sum((count for count, _ in found), Counter())
    worst = {group: max((one[group] for _, one in found), key=lambda one: one[0]) for group in ("linear", "rectified")}
    print(f"forecasts: {dict(total)}; worst under a certificate that holds: {worst}", flush=True)
    return total["violations"]


def _forecasts(seconds: float, seed: int) -> tuple[Counter[str], dict[str, tuple]]:
    """Try forecasts in one process: counts, and the largest distance under a certificate that holds."""
    end, chance, count = time.monotonic() + seconds, random.Random(seed), Counter[str]()
    worst = {"linear": (0.0, ()), "rectified": (0.0, ())}
    while time.monotonic() < end:
        kinds = random_forecasts.KINDS | random_forecasts.MORE
        kind, shape = chance.choice(list(kinds)), chance.randrange(2**31)
        count["shapes"] += 1
        if count["shapes"] % PROGRAMS == 0:
            jax.clear_caches()
        for _ in range(SEEDS):
            name = (kind, shape, chance.randrange(2**31))
            case = random_forecasts.make_case(*name)
            case.late = chance.choice([0, 0, 0, chance.randrange(1, 60)])
            check = chance.choice(["auto", "auto", "auto", True, False])
            name = (*name, case.late, check)
            count["tried"] += 1
            try:
                forecast, distance = random_forecasts.judge(case, check=check)
            except random_forecasts.TooLongError:
                count["too long for the oracle"] += 1
                continue
            except RangeError as error:
                count["refused"] += 1
                print(f"REFUSED {name}: {error}", flush=True)
                continue
            count["held"] += forecast.certificate.holds
            if not forecast.certificate.holds:
                continue
            count["held, not checked"] += forecast.method != "flow" and forecast.certificate.checked is None
            group = "rectified" if case.problem.activations else "linear"
            worst[group] = max(worst[group], (distance, name), key=lambda one: one[0])
            if not distance <= random_forecasts.promised(case):
                count["violations"] += 1
                print(f"VIOLATION {name}: {forecast.method}, {distance:.3g} from the flow", flush=True)
    return count, worst


def _killed(name: str, folder: Path, whole: Path, chance: random.Random, end: float) -> bool:
    """Kill a command once or twice, let it end, and compare; one for which no time is left has not failed."""
    moments = [chance.uniform(0, kills.COMMANDS[name].seconds) for _ in range(chance.choice((1, 1, 2)))]
    for moment in moments:
        kills.kill_after(name, folder, lambda: False, moment)
    status = kills.finish(name, folder, max(end - time.monotonic(), 1.0))
    if status is None:
        print(f"{name}: no time left to end")
        return True
    good = status in (0, 1) and kills.same_results(folder, whole)
    told = ", ".join(f"{moment:.2f} s" for moment in moments)
    print(f"{name} killed at {told}: {'same' if good else f'OTHER, status {status}'}", flush=True)
    return good


if __name__ == "__main__":
    numbers = [float(word) for word in sys.argv[1:] if word != "--forecasts"]
    trial = forecasts if "--forecasts" in sys.argv else main
    sys.exit(bool(trial(*(numbers or [3600.0]), random.randrange(2**32))))
