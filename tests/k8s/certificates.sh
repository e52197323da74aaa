#!/usr/bin/env bash
# One authority, and what each component shows to the others.   usage: certificates.sh FOLDER
set -euo pipefail
cd "$1"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

signed() { # NAME SUBJECT USAGE [NAMES]
  key "$1"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  printf 'extendedKeyUsage=%s\n%s\n' "$3" "${4:+subjectAltName=$4}" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt"
}

key ca
openssl req -x509 -new -key ca.key -subj /CN=cluster -days 30 -out ca.crt
service=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
signed server /CN=apiserver serverAuth "IP:127.0.0.1,IP:10.99.0.1,IP:10.96.0.1,$service"
signed admin /O=system:masters/CN=admin clientAuth
signed node /O=system:nodes/CN=system:node:node1 clientAuth
signed kubelet /CN=node1 serverAuth IP:10.99.0.1,DNS:node1
key accounts
openssl ec -in accounts.key -pubout -out accounts.pub
