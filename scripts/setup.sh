#!/bin/sh
# Sets up .venv with headway and an extra: scripts/setup.sh demo|dev
#
# PYTHON       the interpreter (default python3)
# TORCH_INDEX  index to take torch from, such as the one of its CPU builds; default: what pip is configured with
set -eu
cd "$(dirname "$0")/.."
extra=${1:?"usage: scripts/setup.sh demo|dev"}
python=${PYTHON:-python3}

fail() { echo "error: $*" >&2; exit 1; }
say() { echo "set-up: $*"; }
# what an installer says is shown only when it fails
quietly() {
    log=$(mktemp)
    if "$@" > "$log" 2>&1; then rm -f "$log"; else status=$?; cat "$log" >&2; rm -f "$log"; return $status; fi
}

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' 2> /dev/null; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null ||
        fail "$python is no Python 3.10 or later. Install one, or name it: make PYTHON=/path/to/python3."
    say "an environment in .venv"
    quietly "$python" -m venv --clear .venv || fail "$python -m venv failed. On Debian: apt install python3-venv."
fi

# the pinned releases want Python 3.11; for 3.10 only torch's holds
pins=constraints.txt
if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    pins=.venv/constraints.txt
    grep '^torch==' constraints.txt > "$pins"
fi

# torch first and by pip: the build for the machine (CPU alone is a tenth in size) often comes from pip's own
# configuration, which uv does not read. Byte code is made once, for everything, at the end.
torch=$(sed -n 's/^torch==/torch==/p' constraints.txt)
if ! .venv/bin/python - "$torch" 2> /dev/null << 'PY'
import sys
from importlib.metadata import version
version("uv")
sys.exit(version("torch").partition("+")[0] != sys.argv[1].partition("==")[2])
PY
then
    say "$torch (the largest part)"
    quietly .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c "$pins" uv "$torch" \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} || fail "pip could not install $torch."
fi

say "headway[$extra]"
# uv reads neither pip's index nor its certificates: hand both over
index=$(.venv/bin/python -m pip config get global.index-url 2> /dev/null || true)
with_uv() {
    UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 UV_HTTP_TIMEOUT=180 UV_NO_PROGRESS=1 \
        UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$index}}" \
        .venv/bin/uv pip install --python .venv/bin/python --quiet --compile-bytecode -c "$pins" -e ".[$extra]"
}
with_pip() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c "$pins" -e ".[$extra]"
    .venv/bin/python -m compileall -q -j 0 .venv/lib > /dev/null 2>&1 || true
}
if ! with_uv 2> .venv/uv.log; then
    say "uv could not (see .venv/uv.log); with pip then"
    quietly with_pip || fail "pip could not install headway[$extra]."
fi
