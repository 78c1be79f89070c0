#!/bin/sh
# Prints the directory that benchmarks run in: a copy of the checkout with the hot path compiled, as in a wheel, and
# with a .venv whose Python was built with optimisation. Where this machine has none, that of .venv has to do.
set -eu
cd "$(dirname "$0")/.."

is_optimised() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 &&
        "$1" benchmarks/python_build.py
}

found=
for candidate in .venv/bin/python python3.13 python3.12 python3.11 python3 /usr/bin/python3.13 /usr/bin/python3.12 \
    /usr/bin/python3.11 /usr/bin/python3 "$(uv python find '>=3.11' 2>/dev/null || true)"; do
    if [ -n "$candidate" ] && is_optimised "$candidate"; then
        found=$candidate
        break
    fi
done
if [ -z "$found" ]; then
    echo "No Python that was built with optimisation: figures of pkafka are up to a quarter worse than they need be." >&2
    found=.venv/bin/python
fi
# A path with a slash is of this directory.
case $found in
.venv/*) found=$(pwd)/$found ;;
esac
PYTHON=$found sh scripts/compiled-copy.sh .bench
mkdir -p benchmarks/results
rm -rf .bench/benchmarks/results
ln -s ../../benchmarks/results .bench/benchmarks/results
echo .bench
