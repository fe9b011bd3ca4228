#!/bin/sh
# Builds Millrace and runs the main job: Q-learning on CartPole-v1 with 2,000 environments.
# Arguments are handed to `rl_run train`, after the configuration: ./quickstart.sh seed=7 --quiet
set -eu
cd "$(dirname "$0")"
sh cmake/install_packages.sh
cmake --preset release -DMILLRACE_TESTS=OFF -DMILLRACE_BENCH=OFF >/dev/null
echo "Building (a few minutes the first time) ..." >&2
cmake --build --preset release --target rl_run | tail -n 1 >&2
exec build/release/apps/rl_run train configs/cartpole.toml "$@"
