#!/bin/sh
# The Debian packages that tests need, where apt is there and we may use it. A package that cannot be had is said, and
# the tests that need it are skipped by name.
set -u

missing=""
command -v chromium > /dev/null 2>&1 || missing="$missing chromium"
[ -n "$(fc-list :lang=zh 2> /dev/null)" ] || missing="$missing fonts-noto-cjk"
command -v initdb > /dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || missing="$missing postgresql"
# file systems that tests fill up, break and mount
PATH="$PATH:/usr/sbin:/sbin"
command -v mount > /dev/null 2>&1 || missing="$missing mount"
command -v mkfs.ext4 > /dev/null 2>&1 || missing="$missing e2fsprogs"
command -v mkfs.btrfs > /dev/null 2>&1 || missing="$missing btrfs-progs"
{ command -v fusermount3 && ldconfig -p | grep -q 'libfuse3\.so'; } > /dev/null 2>&1 || missing="$missing fuse3"
# a real S3-compatible server
for kind in proxy account container object; do
    command -v "swift-$kind-server" > /dev/null 2>&1 || missing="$missing swift-$kind"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get > /dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
    echo "set-up: not there, and not ours to install:$missing"
    exit 0
fi
echo "set-up: Debian packages$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
apt-get -qq update > "$log" 2>&1 || true
for package in $missing; do
    apt-get -qq -y --no-install-recommends install "$package" >> "$log" 2>&1 ||
        echo "set-up: $package could not be installed: $(tail -n 1 "$log")"
done
rm -f "$log"
