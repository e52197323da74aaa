#!/usr/bin/env bash
# The first process of a cluster that lives in namespaces of its own: makes them ready and keeps them.
#   usage: unshare -n -m -p -i -u -f --mount-proc --kill-child namespace.sh FOLDER
# Ends when it is killed, and all that runs in the namespaces with it.
set -euo pipefail
folder=$1

mount --make-rprivate /
mount -t tmpfs tmpfs /run
for place in /var/log/containers /var/lib/cni; do mkdir -p "$place"; mount -t tmpfs tmpfs "$place"; done
for place in kubelet pods; do mkdir -p "$folder/$place"; done
mkdir -p /var/lib/kubelet /var/log/pods
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mount --bind "$folder/pods" /var/log/pods
: >"$folder/resolv.conf"
mount --bind "$folder/resolv.conf" /etc/resolv.conf

# The kubelet would set these for the whole machine. It finds what it wants here and is content.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  file=$folder/$(basename "${setting%=*}")
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done

hostname node1
ip link set lo up
ip link add k8s0 type bridge
ip address add 10.99.0.1/24 dev k8s0
ip link set k8s0 up
ip route add default via 10.99.0.1
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

touch "$folder/made"
while :; do
  sleep 3600 &
  wait $! || :
done
