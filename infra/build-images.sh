#!/usr/bin/env bash
# Builds the images. Everything is fetched on the host (jars into the cache of the lab, wheels by
# pip), so the build itself needs no network where BASE already has Java and Python.
#   usage: infra/build-images.sh [kafka] [node] [audit]      (all three without a name)
#   BASE    image to build on; default: debian:bookworm-slim, or one made by build-base.sh
#   TAG     tag of the images trellis-kafka, trellis-node, trellis-audit; default: dev
#   PYTHON  Python with the project installed; default: .venv/bin/python
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
PYTHON=${PYTHON:-.venv/bin/python}
TAG=${TAG:-dev}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

# Returns the base of an image: what is here, else what can be pulled, else one that is made here.
choose_base() {
  local public=debian:bookworm-slim own=trellis-base:bookworm
  [ "$1" = node ] && own=trellis-python:bookworm
  if docker image inspect "$own" >/dev/null 2>&1; then echo "$own"
  elif docker image inspect "$public" >/dev/null 2>&1 || docker pull -q "$public" >/dev/null 2>&1; then echo "$public"
  else "$here/build-base.sh" && echo "$own"
  fi
}

stage_jars() {
  local jars
  jars=$("$PYTHON" -c 'import os, sys
from mesh.local.jars import cache_folder, find_kafka
tell = lambda text: print(text, file=sys.stderr)
print(find_kafka(cache=cache_folder(os.environ.get("MESH_CACHE")), progress=tell).jars)')
  cp -r "$jars" "$context/jars"
  cp "$here/kafka-entrypoint.sh" "$context/"
}

quiet=(--quiet --disable-pip-version-check --root-user-action ignore)

# Packages for the image's Python 3.11, in the versions of requirements.lock, without an installer.
stage_site() {
  [ -d "$context/site" ] && return
  "$PYTHON" -m pip wheel "${quiet[@]:0:2}" --no-deps -w "$context/wheels" . >&2
  sed -nE 's/^([A-Za-z0-9._-]+==[^ ;\\]+).*/\1/p' requirements.lock >"$context/constraints.txt"
  local wheel; wheel=$(echo "$context"/wheels/trellis_mesh-*.whl)
  install_into site "$wheel[api]"   # with what `mesh dashboard` takes
  printf '%s\n' '#!/usr/bin/python3' 'from mesh.__main__ import main' 'main()' >"$context/mesh"
  chmod 755 "$context/mesh"
}

install_into() {
  local machine; machine=$(uname -m)
  "$PYTHON" -m pip install "${quiet[@]}" --target "$context/$1" -c "$context/constraints.txt" --no-compile \
    --python-version 3.11 --implementation cp --only-binary=:all: \
    --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" \
    --platform "manylinux2014_$machine" "${@:2}" >&2
  rm -rf "${context:?}/$1/bin"
}

stage_audit() {
  stage_site
  local version; version=$(sed -nE 's/^pyspark==([^ ;\\]+).*/\1/p' requirements.lock)
  local py4j; py4j=$(sed -nE 's/^(py4j==[^ ;\\]+).*/\1/p' requirements.lock)
  mkdir -p "$context/ivy-spark"
  "$PYTHON" -m pip wheel "${quiet[@]:0:2}" --no-deps -w "$context/audit-wheels" "pyspark==$version" "$py4j" >&2
  install_into audit-site --no-deps "$context"/audit-wheels/*.whl
  # Fetches Spark's Kafka and Avro jars into the cache, by starting Spark once.
  local cache
  cache=$("$PYTHON" -c 'import os
from mesh.local.jars import cache_folder
from streaming.connectors.session import start_session
cache = cache_folder(os.environ.get("MESH_CACHE"))
start_session(cache, cores=1).stop()
print(cache)')
  cp -r "$cache/ivy-spark/." "$context/ivy-spark/"
}

version=$(sed -nE 's/^version = "(.*)"/\1/p' pyproject.toml | head -n 1)

build() {
  local base
  base=${BASE:-$(choose_base "$1")}
  echo "building trellis-$1:$TAG on $base" >&2
  local buildkit=0
  docker buildx version >/dev/null 2>&1 && buildkit=1
  DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-$buildkit} docker build --quiet --build-arg "BASE=$base" --build-arg "VERSION=$version" \
    -t "trellis-$1:$TAG" -f "$here/Dockerfile.$1" "$context"
}

for image in "$@"; do
  case $image in
    kafka | node | audit) ;;
    *) echo "unknown image $image: kafka, node or audit" >&2; exit 2 ;;
  esac
done
command -v docker >/dev/null || { echo "docker not found: install docker.io" >&2; exit 1; }
for image in "${@:-all}"; do
  case $image in
    kafka) stage_jars; build kafka ;;
    node)  stage_site; build node ;;
    audit) stage_audit; build audit ;;
    all)   stage_jars; stage_audit; build kafka; build node; build audit ;;
  esac
done
