#!/bin/sh
# Writes constraints.txt from what .venv holds now. After: `rm -rf .venv`, set-up without constraints, tests.
set -eu
cd "$(dirname "$0")/.."
{
    echo '# The versions that the tests run with, and that `make` installs. Renewed by: scripts/lock.sh'
    # the local label (+cpu) says where a build came from, not which release it is
    .venv/bin/python -m pip freeze --exclude-editable | grep -viE '^(headway|pip|setuptools|wheel|-e)' | sed 's/+[a-z0-9.]*$//' |
        LC_ALL=C sort -f
} > constraints.txt.new
mv constraints.txt.new constraints.txt
