#!/bin/sh
# Copies the checkout into a directory, and compiles the hot path there (setup.py), beside its sources: those of the
# checkout stay as they are. Usage: compiled-copy.sh DIRECTORY [PYTHON]. Without a PYTHON to compile with, which has to
# have pip, the copy gets a .venv of its own, with what the tests need. What has not changed is not made again.
set -eu
cd "$(dirname "$0")/.."
copy=$1
python=${2:-}
mkdir -p "$copy"
# What the checkout has no more must not stay; what was made in the copy may.
find "$copy" \( -path "$copy/.venv" -o -name '*.egg-info' \) -prune -o -type f ! -name '*.so' ! -name .compiled -exec rm {} +
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --preserve=timestamps -t "$copy"
cd "$copy"
if [ -z "$python" ]; then
    python=.venv/bin/python
    if [ ! .venv/.ready -nt pyproject.toml ]; then
        sh scripts/make-venv.sh test >&2
        touch .venv/.ready
    fi
fi
sum=$(find setup.py pyproject.toml pkafka \( -name '*.py' -o -name '*.pxd' -o -name pyproject.toml \) -print0 | sort -z |
    xargs -0 sha256sum | sha256sum)
[ "$(cat .compiled 2>/dev/null)" != "$sum" ] || exit 0
echo "Compiling the hot path, which takes a minute or two ..." >&2
find . -path ./.venv -prune -o -name '*.so' -exec rm {} +
PKAFKA_COMPILE=1 "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir built . >&2
"$python" - <<'END'
from pathlib import Path
from zipfile import ZipFile

(wheel,) = Path("built").glob("*.whl")
with ZipFile(wheel) as files:
    files.extractall(members=[name for name in files.namelist() if name.endswith(".so")])
END
rm -rf built build
echo "$sum" >.compiled
