#!/bin/sh
# Makes .venv, or what VENV names, with pkafka in it, editable. Arguments: the dependency groups of pyproject.toml to add (none for running).
# What this machine lacks is named in one line, with the command that installs it.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}

fail() {
    echo "pkafka: $1" >&2
    exit 1
}

# The command that installs the packages given for Debian, Fedora and Homebrew, in this order.
install_with() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "sudo apt-get install -y $1"
    elif command -v dnf >/dev/null 2>&1; then
        echo "sudo dnf install -y $2"
    else
        echo "brew install $3"
    fi
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# One without pip was interrupted while it was made.
if [ ! -x $venv/bin/python ] || ! is_new_enough $venv/bin/python || ! $venv/bin/python -c 'import pip' 2>/dev/null; then
    python=
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python3.14}; do
        if is_new_enough "$candidate"; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        asked=${PYTHON:-python3}
        found=$($asked --version 2>/dev/null || echo "no $asked")
        fail "Python 3.11 or newer is needed, found $found: $(install_with 'python3 python3-venv' python3.13 python@3.13)"
    fi
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        name=$("$python" -c 'import sys; print(f"python3.{sys.version_info[1]}")')
        fail "$name lacks the venv module: $(install_with "$name-venv" "$name" "python@${name#python}")"
    fi
    rm -rf $venv
    "$python" -m venv $venv
fi

# --group came with pip 25.1.
if ! $venv/bin/python -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))'; then
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
fi

groups=
for group in "$@"; do
    groups="$groups --group $group"
done
# A path instead of an import hook (compat): the hook costs every command 20 ms.
# setuptools warns of every editable install at length; what pip says is shown only when it fails.
# shellcheck disable=SC2086 # one word a flag
if ! $venv/bin/python -m pip install --disable-pip-version-check --config-settings editable_mode=compat \
    --editable . $groups >$venv/install.log 2>&1; then
    tail -n 40 $venv/install.log >&2
    fail "pip could not install into .venv: see above, and $venv/install.log"
fi
