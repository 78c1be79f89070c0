#!/bin/sh
# Prints the directory of programs that benchmarks run with: of .venv where its Python is built with optimisation, else
# of .venv-bench, which is made with a Python that is. Where this machine has none, .venv has to do.
set -eu
cd "$(dirname "$0")/.."

is_optimised() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 &&
        "$1" benchmarks/python_build.py
}

if is_optimised .venv/bin/python; then
    echo .venv/bin
    exit
fi
found=
for candidate in python3.13 python3.12 python3.11 python3 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11 \
    /usr/bin/python3 "$(uv python find '>=3.11' 2>/dev/null || true)"; do
    if [ -n "$candidate" ] && is_optimised "$candidate"; then
        found=$candidate
        break
    fi
done
if [ -z "$found" ]; then
    echo "No Python that was built with optimisation: figures of pkafka are up to a quarter worse than they need be." >&2
    echo .venv/bin
    exit
fi
if [ ! .venv-bench/.ready -nt .venv/.test-ready ]; then
    echo "Installing pkafka into .venv-bench with $found, which was built with optimisation ..." >&2
    VENV=.venv-bench PYTHON=$found sh scripts/make-venv.sh test >&2
    touch .venv-bench/.ready
fi
echo .venv-bench/bin
