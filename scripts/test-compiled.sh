#!/bin/sh
# Runs the unit tests with the hot path compiled, in a copy of the checkout. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-$(pwd)/.venv/bin/python}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
sh scripts/compiled-copy.sh "$copy" "$python"
cd "$copy"
[ $# -gt 0 ] || set -- -n auto -m "not nightly and not root and not oracle" tests/unit
"$python" -m pytest -q "$@"
