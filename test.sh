#!/bin/sh
# Builds everything and runs all tests. Arguments are handed to ctest: ./test.sh -R config
set -eu
cd "$(dirname "$0")"
sh cmake/install_packages.sh --tests
# The reference package, to re-record a sample of the golden data. In build/, so that the tree stays clean.
if [ ! -x build/reference/bin/python ]; then
  python3 -m venv build/reference
fi
build/reference/bin/python -m pip install -q --disable-pip-version-check \
  -r tests/golden/requirements.txt -r tests/requirements.txt
cmake --preset release -DMILLRACE_TESTS=ON -DMILLRACE_BENCH=ON >/dev/null
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
