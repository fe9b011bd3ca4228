"""The shipped configurations learn: greedy returns at the end, and in the last fifth of the run.

Usage: learning_test.py PATH_TO_RL_RUN SOURCE_DIR [--full]
--full runs every seed of docs/acceptance.md, and the published recipes (minutes); without it, a part of them.
"""

import json
import os
import subprocess
import sys
import tempfile

RL_RUN, SOURCE = map(os.path.abspath, sys.argv[1:3])
FULL = "--full" in sys.argv

# configuration, seeds, seeds in a full run, lowest final return, lowest evaluation in the last fifth
CASES = [
    ("cartpole", 10, 10, 475.0, 450.0),
    ("mountaincar", 1, 10, -110.0, None),
    ("acrobot", 1, 5, -90.0, None),
    ("pendulum", 1, 5, -160.0, None),
    ("paper/cartpole", 0, 5, 495.0, None),
    ("paper/acrobot", 0, 5, -95.0, None),
]


def main():
    failed = 0
    for name, some, full, lowest, lowest_in_last_fifth in CASES:
        seeds = full if FULL else some
        if seeds == 0:
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [RL_RUN, "train", os.path.join(SOURCE, "configs", name + ".toml"), "--json", "--quiet", "--seeds",
                 str(seeds), "--run-dir", os.path.join(folder, "run")],
                capture_output=True, text=True, check=True)
            runs = json.loads(result.stdout)["runs"]
            for run in runs:
                with open(os.path.join(run["run_dir"], "metrics.jsonl")) as file:
                    rows = [json.loads(line) for line in file]
                late = min(row["eval/mean_reward"] for row in rows
                           if "eval/mean_reward" in row and row["step"] >= 0.8 * run["steps"])
                good = run["greedy_return_mean"] >= lowest and (lowest_in_last_fifth is None
                                                               or late >= lowest_in_last_fifth)
                failed += not good
                print(f"{name} seed {run['seed']}: {run['greedy_return_mean']:.1f}, lowest in the last fifth {late:.1f}, "
                      f"{run['steps']} steps, {run['wall_s']:.2f} s, at the threshold after "
                      f"{run['seconds_at_threshold']} s{'' if good else '  <-- too low'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
