#!/usr/bin/env python3
"""Records what the real Gymnasium does, as golden data for the tests in tests/envs/; README.md describes the files.

    pip install -r tests/golden/requirements.txt
    python tests/golden/record_gymnasium.py            # records everything anew into tests/golden/data/
    python tests/golden/record_gymnasium.py --check    # re-records a random sample and compares; exit 1 if it differs
"""

import argparse
import dataclasses
import hashlib
import json
import math
import pathlib
import random
import sys

try:
    import gymnasium
    import numpy as np
except ImportError as error:
    print(f"{error}: pip install -r tests/golden/requirements.txt")
    sys.exit(77)

DATA = pathlib.Path(__file__).resolve().parent / "data"
TRANSITIONS = 100_000
PARTS = 2  # files that an environment's transitions are split over
EPISODES = 50
VERSION = 1
FIRST_SEED = 1000  # episode e is reset with seed FIRST_SEED + e
EPISODE_DRAWS = 2**32  # indices from here on belong to the episodes' actions

# https://gymnasium.farama.org/api/vector/ prints this for make_vec("CartPole-v1", num_envs=3), seed 42.
DOCUMENTED_FIRST_OBSERVATION = [0.0273956, -0.00611216, 0.03585979, 0.0197368]


@dataclasses.dataclass(frozen=True)
class Environment:
    """`specials`: (field, centre, half-width) of the neighbourhoods that three eighths of the states are drawn from."""

    id: str
    number: int
    low: tuple
    high: tuple
    specials: tuple
    actions: int
    stores_reward: bool = False


ENVIRONMENTS = [
    Environment(
        "CartPole-v1", 0, (-3.0, -4.0, -0.3, -5.0), (3.0, 4.0, 0.3, 5.0),
        ((0, 2.4, 0.1), (0, -2.4, 0.1), (2, 0.2095, 0.1), (2, -0.2095, 0.1), (2, 0.0, 3.2), (3, 0.0, 20.0)), 2),
    Environment(
        "MountainCar-v0", 1, (-1.3, -0.08), (0.7, 0.08),
        ((0, 0.5, 0.07), (0, -1.2, 0.07), (0, 0.6, 0.07), (1, 0.07, 0.003), (1, -0.07, 0.003), (1, 0.0, 0.003)), 3),
    Environment(
        "Acrobot-v1", 2, (-3.5, -3.5, -13.0, -29.0), (3.5, 3.5, 13.0, 29.0),
        ((0, 3.14, 0.5), (0, -3.14, 0.5), (1, 3.14, 0.5), (1, -3.14, 0.5), (2, 12.5, 0.5), (3, -28.2, 0.5),
         (2, 0.0, 2.0), (3, 0.0, 2.0)), 3),
    Environment(
        "Pendulum-v1", 3, (-4.0, -8.5), (4.0, 8.5),
        ((0, 3.14159, 0.05), (0, -3.14159, 0.05), (0, 0.0, 80.0), (0, 0.0, 0.05), (1, 8.0, 0.5), (1, -8.0, 0.5)),
        5, stores_reward=True),
]  # fmt: skip


# --- inputs, drawn by a generator that golden.hpp repeats exactly ---------------------------------------------------

MASK = np.uint64(2**64 - 1)


def mix(z):
    """SplitMix64's step and output function on an array of uint64."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def draw(environment, index, field):
    """64 random bits for each (environment, index, field)."""
    index = np.asarray(index, dtype=np.uint64)
    return mix(mix(index) ^ np.uint64(256 * environment.number + field))


def unit(bits):
    """[0, 1) in multiples of 2^-24."""
    return (bits >> np.uint64(40)).astype(np.float64) * 2.0**-24


ACTION_FIELD, KIND_FIELD, GRID_FIELD = 16, 17, 18


def states_of(environment, index):
    """float32 states [n, fields] of the transitions with these indices."""
    kind = draw(environment, index, KIND_FIELD)
    is_special = (kind & np.uint64(7)) >= np.uint64(5)
    choice = (kind >> np.uint64(8)) % np.uint64(len(environment.specials))
    columns = []
    for field, (low, high) in enumerate(zip(environment.low, environment.high)):
        u = unit(draw(environment, index, field))
        value = low + (high - low) * u
        for number, (special_field, centre, half) in enumerate(environment.specials):
            if special_field == field:
                value = np.where(is_special & (choice == number), centre + half * (2.0 * u - 1.0), value)
        columns.append(value.astype(np.float32))
    return np.stack(columns, axis=1)


def torque_counts_of(environment, index):
    """Pendulum: how many torques the grid of each transition has: 5, and one time in four 3 or 9."""
    grid = draw(environment, index, GRID_FIELD) & np.uint64(7)
    return np.where(grid == 0, 3, np.where(grid == 1, 9, 5))


def actions_of(environment, index):
    count = environment.actions
    if environment.id == "Pendulum-v1":
        count = torque_counts_of(environment, index)
    return (draw(environment, index, ACTION_FIELD) % np.asarray(count, dtype=np.uint64)).astype(np.int64)


def torque(action, count):
    # float64 so that the reference computes its cost in float64, too; all three grids are exact.
    return np.array([-2.0 + 4.0 * action / (count - 1)])


# --- outputs -------------------------------------------------------------------------------------------------------


def encode(values):
    """float64 as float32 and a residual in 1/254 of its unit in the last place."""
    values = np.asarray(values, dtype=np.float64)
    nearest = values.astype(np.float32)
    ulp = np.spacing(np.abs(nearest)).astype(np.float64)
    residual = np.rint((values - nearest.astype(np.float64)) / ulp * 254.0)
    return nearest, residual.astype(np.int8)


def decode(nearest, residual):
    return nearest.astype(np.float64) + residual * (np.spacing(np.abs(nearest)).astype(np.float64) / 254.0)


def observation_of(environment, state):
    """The observation, in float64, that follows from a state; recording asserts that the reference rounds exactly this."""
    if environment.id == "Acrobot-v1":
        return np.array([np.cos(state[0]), np.sin(state[0]), np.cos(state[1]), np.sin(state[1]), state[2], state[3]])
    if environment.id == "Pendulum-v1":
        return np.array([np.cos(state[0]), np.sin(state[0]), state[1]])
    return np.array(state)


def reward_of(environment, terminated):
    """The rewards that are not stored because they are constants; recording asserts them."""
    if environment.id == "Acrobot-v1":
        return 0.0 if terminated else -1.0
    return {"CartPole-v1": 1.0, "MountainCar-v0": -1.0}[environment.id]


def require(condition, message):
    if not condition:
        sys.exit(f"record_gymnasium.py: {message}")


def record_transitions(environment, index):
    """Steps the real environment once from each injected state: next states, rewards, terminated."""
    env = gymnasium.make(environment.id).unwrapped
    env.reset(seed=0)
    states, actions = states_of(environment, index), actions_of(environment, index)
    counts = torque_counts_of(environment, index)
    next_states, rewards, ends = np.empty(states.shape), np.empty(len(states)), np.empty(len(states), dtype=bool)
    for row, state in enumerate(states):
        env.state = state.astype(np.float64)
        env.steps_beyond_terminated = None
        action = int(actions[row])
        if environment.id == "Pendulum-v1":
            action = torque(action, int(counts[row]))
        observation, reward, terminated, truncated, _ = env.step(action)
        next_states[row], rewards[row], ends[row] = env.state, reward, terminated
        expected = observation_of(environment, next_states[row]).astype(np.float32)
        require(np.all(np.abs(observation - expected) <= np.spacing(np.abs(expected))) and not truncated,
                f"{environment.id}: an observation is not the one that README.md derives from the state")
        require(environment.stores_reward or reward == reward_of(environment, terminated),
                f"{environment.id}: a reward is not the constant that README.md says")
    return next_states, rewards, ends


# --- whole episodes ------------------------------------------------------------------------------------------------


def policy_of(environment, episode):
    """Every third episode acts at random, the others skilfully, with noise in every second of them."""
    some = 0.7 if environment.id == "CartPole-v1" else 0.15
    noise = 1.0 if episode % 3 == 0 else (0.0, some)[episode % 2]

    def skilled(state, bits):
        if environment.id == "CartPole-v1":
            return int(state[2] + 0.3 * state[3] + 0.02 * state[0] + 0.06 * state[1] > 0.0)
        if environment.id == "MountainCar-v0":
            return 2 if state[1] >= 0.0 else 0
        if environment.id == "Acrobot-v1":
            return 2 if state[3] - 0.3 * state[2] > 0.0 else 0
        # Pendulum: pump energy, then catch.
        theta = (state[0] + math.pi) % (2.0 * math.pi) - math.pi
        if abs(theta) < 0.4:
            return min(max(round(2.0 - 8.0 * theta - 2.0 * state[1]), 0), 4)
        energy = 0.5 * state[1] ** 2 + 15.0 * (math.cos(theta) - 1.0)
        return 4 if (energy < 0.0) == (state[1] > 0.0) else 0

    def policy(state, step):
        index = EPISODE_DRAWS + 65536 * episode + step
        bits = int(draw(environment, index, ACTION_FIELD))
        if float(unit(draw(environment, index, KIND_FIELD))) < noise:
            return bits % environment.actions
        return skilled(state, bits)

    return policy


def record_episode(environment, episode):
    """One whole episode with the reference's own reset and time limit."""
    env = gymnasium.make(environment.id, disable_env_checker=True)
    env.reset(seed=FIRST_SEED + episode)
    policy = policy_of(environment, episode)
    states, actions, rewards = [np.array(env.unwrapped.state, dtype=np.float64)], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        action = policy(states[-1], len(actions))
        applied = torque(action, 5) if environment.id == "Pendulum-v1" else action
        _, reward, terminated, truncated, _ = env.step(applied)
        states.append(np.array(env.unwrapped.state, dtype=np.float64))
        actions.append(action)
        rewards.append(float(reward))
    env.close()
    return {"states": np.array(states), "actions": np.array(actions, dtype=np.uint8), "rewards": np.array(rewards),
            "terminated": bool(terminated), "truncated": bool(truncated)}


# --- files ---------------------------------------------------------------------------------------------------------


def header(kind, environment, count):
    return b"MRGOLD" + kind + np.array(
        [VERSION, environment.number, len(environment.low), count, int(environment.stores_reward)], "<u4").tobytes()


def transitions_path(environment, part):
    return DATA / f"{environment.id}.transitions{part}.bin"


def episodes_path(environment):
    return DATA / f"{environment.id}.episodes.bin"


def write_transitions(environment):
    size = TRANSITIONS // PARTS
    for part in range(PARTS):
        next_states, rewards, ends = record_transitions(environment, np.arange(part * size, (part + 1) * size))
        columns = list(next_states.T) + ([rewards] if environment.stores_reward else [])
        pairs = [encode(column) for column in columns]
        content = header(b"TR", environment, size)
        content += b"".join(nearest.astype("<f4").tobytes() for nearest, _ in pairs)
        content += b"".join(residual.tobytes() for _, residual in pairs)
        content += np.packbits(ends, bitorder="little").tobytes()
        transitions_path(environment, part).write_bytes(content)


def read_transitions(environment):
    size, fields = TRANSITIONS // PARTS, len(environment.low)
    columns, values, ends = fields + int(environment.stores_reward), [], []
    for part in range(PARTS):
        content = transitions_path(environment, part).read_bytes()
        prefix = header(b"TR", environment, size)
        require(content.startswith(prefix), f"{transitions_path(environment, part).name} has another header")
        at = len(prefix)
        nearest = np.frombuffer(content, "<f4", columns * size, at).reshape(columns, size)
        at += 4 * columns * size
        residual = np.frombuffer(content, np.int8, columns * size, at).reshape(columns, size)
        at += columns * size
        values.append(decode(nearest, residual))
        ends.append(np.unpackbits(np.frombuffer(content, np.uint8, offset=at), bitorder="little")[:size] != 0)
    values, ends = np.concatenate(values, axis=1), np.concatenate(ends)
    rewards = values[fields] if environment.stores_reward else np.array([reward_of(environment, e) for e in ends])
    return values[:fields].T, rewards, ends


def write_episodes(environment):
    content = header(b"EP", environment, EPISODES)
    for episode in range(EPISODES):
        record = record_episode(environment, episode)
        flags = int(record["terminated"]) + 2 * int(record["truncated"])
        content += np.array([len(record["actions"]), flags], "<u4").tobytes()
        content += record["states"].astype("<f8").tobytes() + record["rewards"].astype("<f8").tobytes()
        content += record["actions"].tobytes()
    episodes_path(environment).write_bytes(content)


def read_episodes(environment):
    content = episodes_path(environment).read_bytes()
    prefix = header(b"EP", environment, EPISODES)
    require(content.startswith(prefix), f"{episodes_path(environment).name} has another header")
    at, fields, episodes = len(prefix), len(environment.low), []

    def take(kind, count):
        nonlocal at
        values = np.frombuffer(content, kind, count, at)
        at += values.nbytes
        return values

    for _ in range(EPISODES):
        length, flags = (int(value) for value in take("<u4", 2))
        episodes.append({
            "states": take("<f8", (length + 1) * fields).reshape(length + 1, fields), "rewards": take("<f8", length),
            "actions": take(np.uint8, length), "terminated": bool(flags & 1), "truncated": bool(flags & 2)})
    return episodes


def first_observations():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=42)
    require(np.allclose(observations[0], DOCUMENTED_FIRST_OBSERVATION, rtol=0.0, atol=5e-9),
            f"CartPole-v1's first observation is {observations[0]}, not the documented one")
    return [[float(value) for value in row] for row in observations]


def record_everything():
    DATA.mkdir(exist_ok=True)
    for environment in ENVIRONMENTS:
        write_transitions(environment)
        write_episodes(environment)
        print(f"{environment.id}: {TRANSITIONS} transitions, {EPISODES} episodes")
    files = sorted(DATA.glob("*.bin"))
    manifest = {
        "gymnasium": gymnasium.__version__, "numpy": np.__version__,
        "cartpole_seed_42_first_observations": first_observations(),
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}}  # fmt: skip
    (DATA / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


# --- check ---------------------------------------------------------------------------------------------------------


def differ(stored, recorded):
    """Apart from the encoding's precision, and from what another processor's sine may change in a double."""
    return np.abs(stored - recorded) > 2.0**-32 * np.abs(recorded) + 1e-10


def check_transitions(environment, generator, count):
    index = np.array(sorted(generator.sample(range(TRANSITIONS), count)))
    stored = [column[index] for column in read_transitions(environment)]
    recorded = record_transitions(environment, index)
    wrong = differ(stored[0], recorded[0]).any(axis=1) | differ(stored[1], recorded[1]) | (stored[2] != recorded[2])
    return [f"{environment.id}: transition {i} differs" for i in index[wrong]]


def check_episode(environment, episode, stored):
    """Replays a stored episode in the reference, under its own time limit. Each step starts from the stored state, so
    that chaotic dynamics cannot blow up the last bit in which two machines' sines may differ."""
    env = gymnasium.make(environment.id, disable_env_checker=True)
    env.reset(seed=FIRST_SEED + episode)
    policy = policy_of(environment, episode)
    faults, states, last = [], stored["states"], len(stored["actions"]) - 1
    if np.any(np.asarray(env.unwrapped.state, dtype=np.float64) != states[0]):
        faults.append(f"{environment.id}: episode {episode} starts from another state")
    for step, action in enumerate(int(action) for action in stored["actions"]):
        env.unwrapped.state = states[step]
        applied = torque(action, 5) if environment.id == "Pendulum-v1" else action
        _, reward, terminated, truncated, _ = env.step(applied)
        ends = (stored["terminated"], stored["truncated"]) if step == last else (False, False)
        if (
            action != policy(states[step], step)
            or np.any(differ(states[step + 1], np.asarray(env.unwrapped.state)))
            or differ(stored["rewards"][step], reward)
            or (terminated, truncated) != ends
        ):
            faults.append(f"{environment.id}: episode {episode} differs at step {step}")
            break
    env.close()
    return faults


def check(transitions, episodes, seed):
    generator = random.Random(seed)
    manifest = json.loads((DATA / "manifest.json").read_text())
    faults = []
    if manifest["cartpole_seed_42_first_observations"] != first_observations():
        faults.append("CartPole-v1: the first observations with seed 42 differ")
    for name, digest in manifest["sha256"].items():
        if hashlib.sha256((DATA / name).read_bytes()).hexdigest() != digest:
            faults.append(f"{name} is not the file that was recorded")
    for environment in ENVIRONMENTS:
        faults += check_transitions(environment, generator, transitions)
        stored = read_episodes(environment)
        for episode in generator.sample(range(EPISODES), episodes):
            faults += check_episode(environment, episode, stored[episode])
        print(f"{environment.id}: {transitions} transitions and {episodes} episodes recorded again")
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    print(f"sample {seed}, gymnasium {gymnasium.__version__}: {len(faults)} differences")
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare a fresh random sample with the stored data")
    parser.add_argument("--transitions", type=int, default=2000, help="sample size per environment (default 2000)")
    parser.add_argument("--episodes", type=int, default=5, help="episodes per environment (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="of the sample (default: a new one each time)")
    arguments = parser.parse_args()
    if arguments.check:
        seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
        return check(arguments.transitions, arguments.episodes, seed)
    record_everything()
    return 0


if __name__ == "__main__":
    sys.exit(main())
