#!/usr/bin/env bash
# Makes the base image (Debian 12 with Java 17 and Python 3.11) where no image can be pulled.
# Needs root, debootstrap and a Docker engine.   usage: infra/build-base.sh [TAG]
set -euo pipefail
tag=${1:-trellis-base:bookworm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for need in debootstrap docker; do
  command -v "$need" >/dev/null || { echo "$need not found: apt-get install debootstrap docker.io" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "debootstrap needs root: run this with sudo" >&2; exit 1; }

echo "making $tag with debootstrap (about two minutes)" >&2
if ! debootstrap --variant=minbase \
  --include=openjdk-17-jre-headless,python3,python3-venv,ca-certificates \
  bookworm "$work/rootfs" >"$work/log" 2>&1; then
  tail -n 5 "$work/log" >&2
  echo "debootstrap failed: are Debian's packages reachable?" >&2
  exit 1
fi
rm -rf "$work"/rootfs/var/cache/apt/* "$work"/rootfs/var/lib/apt/lists/* "$work"/rootfs/usr/share/doc/*
tar -C "$work/rootfs" -c . | docker import --change 'CMD ["bash"]' - "$tag" >/dev/null
echo "made $tag" >&2
