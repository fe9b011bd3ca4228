"""A long run's memory stays flat, and so do its threads and open files.

Usage: soak_test.py PATH_TO_RL_RUN SOURCE_DIR [STEPS]
STEPS is 20 million unless given; docs/acceptance.md has the figures for 10^9 (minutes).
"""

import os
import subprocess
import sys
import tempfile
import time

RL_RUN, SOURCE = map(os.path.abspath, sys.argv[1:3])
STEPS = int(float(sys.argv[3])) if len(sys.argv) > 3 else 20_000_000
ALLOWED_GROWTH_KIB = 4096


def holdings(pid):
    """Resident KiB, threads, open files."""
    fields = {}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            key, _, value = line.partition(":")
            fields[key] = value.split()
    return int(fields["VmRSS"][0]), int(fields["Threads"][0]), len(os.listdir(f"/proc/{pid}/fd"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen(
            [RL_RUN, "train", os.path.join(SOURCE, "configs/cartpole.toml"), f"algo.total_steps={STEPS}",
             "eval.every=1_000_000", "run.log_every=20", "--quiet", "--json", "--run-dir", os.path.join(folder, "run")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        samples = []
        while run.poll() is None:
            try:
                samples.append(holdings(run.pid))
            except (OSError, KeyError):
                break  # it ended between the two calls
            time.sleep(0.05 if len(samples) < 200 else 1.0)
        output, errors = run.communicate()
        if run.returncode != 0:
            print(errors)
            return 1
    # The picture at the end starts a program, which for a moment shares files: the last samples do not count.
    samples = samples[:-2]
    quarter = len(samples) // 4
    early = [max(column) for column in zip(*samples[quarter:2 * quarter])]
    late = [max(column) for column in zip(*samples[3 * quarter:])]
    print(f"{STEPS:.3g} steps, {len(samples)} samples: KiB, threads, files in the second quarter {early}, "
          f"in the last {late}")
    return 0 if late[0] <= early[0] + ALLOWED_GROWTH_KIB and late[1:] <= early[1:] else 1


if __name__ == "__main__":
    sys.exit(main())
