#!/bin/sh
# Installs the Debian packages that Millrace builds with (docs/dependencies.md says why each), if any is missing.
# Usage: install_packages.sh [--tests]
set -eu
packages="g++ cmake ninja-build libtomlplusplus-dev nlohmann-json3-dev libcxxopts-dev libfmt-dev libxxhash-dev gnuplot-nox"
[ "${1:-}" = "--tests" ] && packages="$packages libgtest-dev librandom123-dev python3-venv binutils"
missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ]; then
  run=""
elif command -v sudo >/dev/null; then
  run="sudo"
else
  echo "install_packages.sh: these packages are missing, and installing them needs root:$missing" >&2
  exit 2
fi
echo "Installing:$missing" >&2
$run apt-get update -qq
DEBIAN_FRONTEND=noninteractive $run apt-get install -y -qq --no-install-recommends $missing >/dev/null
