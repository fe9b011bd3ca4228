#!/usr/bin/env python3
"""Steps per second of Gymnasium's vector environments, EnvPool and gymnax beside Millrace's bench_step.

    pip install -r bench/requirements-rivals.txt
    python bench/rivals.py --ours build/release/bench/bench_step [--env CartPole-v1] [--num-envs 2048] [--threads 1]

Step only, with random actions, observations made. One JSON line per system on standard output, with median, minimum
and maximum over the repeats, versions and recipe. A system that is not there says `"skipped": reason`. Each runs in a
process of its own, bound to as many cores as it may use threads; the systems take turns round by round (forwards, then
backwards), so that a machine that slows down does so for all. Actions are drawn before the clock starts, which Millrace
does not do for itself: the comparison leans towards the rivals. Steps on which a rival only resets are not counted.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ACTIONS = {"CartPole-v1": 2, "MountainCar-v0": 3, "Acrobot-v1": 3, "Pendulum-v1": 5}
POOL = 64  # vector steps' worth of random actions, used in turn


def random_actions(env_id, num_envs):
    import numpy as np

    actions = np.random.default_rng(1).integers(0, ACTIONS[env_id], size=(POOL, num_envs))
    if env_id == "Pendulum-v1":
        return (actions.astype(np.float32) - 2.0)[:, :, None]
    return actions


# Each of these returns (function, recipe): function(n) takes n vector steps and returns how many environment steps
# those were.


def stepper(env, actions, resets_take_a_step):
    import numpy as np

    ended, at = np.zeros(actions.shape[1], dtype=bool), 0
    env.reset()

    def run(count):
        nonlocal ended, at
        skipped = 0
        for _ in range(count):
            _, _, terminated, truncated, _ = env.step(actions[at % POOL])
            at += 1
            if resets_take_a_step:
                skipped += int(np.count_nonzero(ended))
                ended = terminated | truncated
        return count * actions.shape[1] - skipped

    return run


def gymnasium_vector(env_id, num_envs, _):
    import gymnasium

    if gymnasium.spec(env_id).vector_entry_point is None:
        raise NotImplementedError(f"gymnasium has no vector environment of its own for {env_id}")
    env = gymnasium.make_vec(env_id, num_envs=num_envs, vectorization_mode="vector_entry_point")
    return stepper(env, random_actions(env_id, num_envs), True), "make_vec(vector_entry_point)"


def gymnasium_sync(env_id, num_envs, _):
    import gymnasium

    env = gymnasium.make_vec(env_id, num_envs=num_envs, vectorization_mode="sync")
    return stepper(env, random_actions(env_id, num_envs), True), "make_vec(sync)"


def envpool_threads(env_id, num_envs, threads):
    import envpool
    import numpy as np

    env = envpool.make(env_id, env_type="gymnasium", num_envs=num_envs, num_threads=threads, seed=1)
    actions = random_actions(env_id, num_envs)
    actions = actions if env_id == "Pendulum-v1" else actions.astype(np.int32)
    return stepper(env, actions, True), f"make(gymnasium, num_threads={threads}), synchronous"


def gymnax_scan(env_id, num_envs, _):
    import gymnax
    import jax
    import jax.numpy as jnp

    env, params = gymnax.make(env_id)
    actions = jnp.asarray(random_actions(env_id, num_envs))
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    @jax.jit
    def chunk(key, state, observation):
        def body(carry, action):
            key, state, _ = carry
            key, draw = jax.random.split(key)
            observation, state, *_ = step(jax.random.split(draw, num_envs), state, action, params)
            return (key, state, observation), None

        return jax.lax.scan(body, (key, state, observation), actions)[0]

    key = jax.random.key(1)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, num_envs), params)
    carry = chunk(key, state, observation)

    def run(count):
        nonlocal carry
        chunks = max(1, count // POOL)
        for _ in range(chunks):
            carry = chunk(*carry)
        jax.block_until_ready(carry)
        return chunks * POOL * num_envs

    return run, f"vmap in a compiled scan of {POOL} steps on {jax.default_backend()}; only the last observation is kept"


RIVALS = {
    "gymnasium.vector": (gymnasium_vector, ["gymnasium", "numpy"]),
    "gymnasium.sync": (gymnasium_sync, ["gymnasium", "numpy"]),
    "envpool": (envpool_threads, ["envpool", "numpy"]),
    "gymnax": (gymnax_scan, ["gymnax", "jax", "jaxlib"]),
}


def versions(packages):
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def worker(name, env_id, num_envs, threads, seconds):
    """One rival: warms up, says so, then measures once for every line on standard input."""
    make, packages = RIVALS[name]
    try:
        run, recipe = make(env_id, num_envs, threads)
        count = POOL
        run(count)  # compiles, where there is something to compile
        while True:  # until a repeat takes long enough; this is the warm-up, too
            start = time.perf_counter()
            run(count)
            taken = time.perf_counter() - start
            if taken >= seconds or count >= 2**22:
                break
            count = max(count + 1, min(count * 8, int(count * seconds / max(taken, 1e-6) * 1.2)))
    except Exception as error:  # whatever a rival's import or set-up throws is the reason to report
        print(json.dumps({"skipped": f"{type(error).__name__}: {error}", "versions": versions(packages)}), flush=True)
        return
    print(json.dumps({"recipe": recipe, "vector_steps": count, "versions": versions(packages)}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        steps = run(count)
        print(json.dumps(steps / (time.perf_counter() - start)), flush=True)


class Rival:
    """A worker process and what it said."""

    def __init__(self, name, arguments, cores):
        command = [sys.executable, os.path.abspath(__file__), "--worker", name, "--env", arguments.env, "--num-envs",
                   str(arguments.num_envs), "--threads", str(arguments.threads), "--seconds", str(arguments.seconds)]  # fmt: skip
        environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads), JAX_PLATFORMS="cpu")
        self.name, self.rates = name, []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        self.about = self.answer()

    def answer(self):
        """The next line of JSON; a rival may print lines of its own before it."""
        for line in self.process.stdout:
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
        return {"skipped": f"the process ended with status {self.process.wait()}"}

    def measure(self):
        if "skipped" in self.about:
            return
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        rate = self.answer()
        if isinstance(rate, dict):
            self.about = rate
        else:
            self.rates.append(rate)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(arguments, cores):
    """Millrace's own line, from bench_step."""
    command = [arguments.ours, "--env", arguments.env, "--num-envs", str(arguments.num_envs), "--threads",
               str(arguments.threads), "--device", "cpu", "--json"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        return dict(json.loads(done.stdout), name="millrace")
    except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
        return {"name": "millrace", "skipped": f"{type(error).__name__}: {error}"}


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", choices=sorted(ACTIONS))
    parser.add_argument("--num-envs", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9, help="at least 7")
    parser.add_argument("--seconds", type=float, default=0.4, help="shortest repeat")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="comma-separated")
    parser.add_argument("--ours", default=None, help="path of bench_step")
    parser.add_argument("--worker", choices=sorted(RIVALS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.rivals.split(",") if name not in RIVALS]
    if unknown:
        parser.error(f"unknown rival {unknown[0]}; there are {', '.join(RIVALS)}")
    usable = len(os.sched_getaffinity(0))
    if not 1 <= arguments.threads <= usable:
        parser.error(f"--threads must be 1 to {usable}, the cores that this process may use")
    if arguments.num_envs < 1 or arguments.repeats < 7:
        parser.error("--num-envs must be at least 1, --repeats at least 7")
    return arguments


def main():
    arguments = parse()
    if arguments.worker:
        worker(arguments.worker, arguments.env, arguments.num_envs, arguments.threads, arguments.seconds)
        return 0
    cores = set(sorted(os.sched_getaffinity(0))[: arguments.threads])
    if arguments.ours:
        print(json.dumps(ours(arguments, cores)), flush=True)
    rivals = [Rival(name, arguments, cores) for name in arguments.rivals.split(",")]
    for repeat in range(arguments.repeats):
        for rival in rivals if repeat % 2 == 0 else reversed(rivals):
            rival.measure()
    for rival in rivals:
        rival.close()
        line = {"kind": "rival", "name": rival.name, "env_id": arguments.env, "num_envs": arguments.num_envs,
                "device": "cpu", "threads": arguments.threads, "cpu": cpu_model(), **rival.about}  # fmt: skip
        if rival.rates and "skipped" not in rival.about:
            line.update(
                steps_per_s=statistics.median(rival.rates), steps_per_s_min=min(rival.rates),
                steps_per_s_max=max(rival.rates), repeats=len(rival.rates))  # fmt: skip
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
