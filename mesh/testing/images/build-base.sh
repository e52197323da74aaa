#!/usr/bin/env bash
# Makes base images of Debian 12 where none can be pulled: one with Python 3.11, and one with Java 17
# besides. Needs root, debootstrap and a Docker engine.   usage: bash build-base.sh
set -euo pipefail
python=trellis-python:bookworm
java=trellis-base:bookworm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for need in debootstrap docker; do
  command -v "$need" >/dev/null || { echo "$need not found: apt-get install debootstrap docker.io" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "debootstrap needs root: run this with sudo" >&2; exit 1; }
root=$work/rootfs

give_up() {
  tail -n 5 "$work/log" >&2
  echo "$1 failed: are Debian's packages reachable?" >&2
  exit 1
}

# What a container has no use for: manuals, translations, lists of packages, old character sets, and
# how its installation went.
import() {
  tar -C "$root" -c \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
    --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/info/*' \
    --exclude='./usr/lib/*/gconv/*' --exclude='./var/cache/debconf/*-old' \
    --exclude='./var/lib/dpkg/*-old' --exclude='./var/log/*.log' . |
    docker import --change 'CMD ["bash"]' - "$1" >/dev/null
  echo "made $1" >&2
}

echo "making $python and $java with debootstrap (about two minutes)" >&2
debootstrap --variant=minbase --include=python3,ca-certificates bookworm "$root" >"$work/log" 2>&1 ||
  give_up debootstrap
import "$python"
# Java's installation looks into /proc; mounted in a namespace of its own, it is gone with it.
unshare --mount sh -ec "mount -t proc proc '$root/proc'; DEBIAN_FRONTEND=noninteractive chroot '$root' \
  apt-get install -y -q --no-install-recommends openjdk-17-jre-headless" >"$work/log" 2>&1 ||
  give_up "apt-get install"
import "$java"
