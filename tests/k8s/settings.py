"""What each component of the cluster is told, as the files that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BRIDGE = "10.99.0.1"
"""Address of the one node, of its API server and of its DNS."""

NODE = "node1"
PAUSE = "trellis-pause:1"
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/24"


def write(folder: Path, programs: Path) -> None:
    """Write every file; the certificates are there."""
    for user in ("admin", "node"):
        _json(folder / f"{user}.conf", _kubeconfig(folder, user))
    _json(folder / "kubelet.json", _kubelet(folder))
    _json(folder / "proxy.json", _proxy(folder))
    (folder / "cni").mkdir()
    _json(folder / "cni" / "10-bridge.conflist", _network())
    (folder / "containerd.toml").write_text(_containerd(folder), encoding="utf-8")
    (folder / "Corefile").write_text(
        f".:53 {{\n  bind {BRIDGE}\n  errors\n  cache 5\n"
        f"  kubernetes cluster.local {{\n    kubeconfig {folder}/admin.conf\n  }}\n}}\n",
        encoding="utf-8",
    )


def apiserver(folder: Path) -> list[str]:
    """Return the options of the API server."""
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={BRIDGE}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--client-ca-file={folder}/ca.crt",
        f"--tls-cert-file={folder}/server.crt",
        f"--tls-private-key-file={folder}/server.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/accounts.pub",
        f"--service-account-signing-key-file={folder}/accounts.key",
        f"--kubelet-certificate-authority={folder}/ca.crt",
        f"--kubelet-client-certificate={folder}/admin.crt",
        f"--kubelet-client-key={folder}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
    ]


def manager(folder: Path) -> list[str]:
    """Return the options of the controller manager."""
    return [
        f"--kubeconfig={folder}/admin.conf",
        "--leader-elect=false",
        f"--root-ca-file={folder}/ca.crt",
        f"--service-account-private-key-file={folder}/accounts.key",
        "--use-service-account-credentials",
    ]


def _json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=1), encoding="utf-8")


def _kubeconfig(folder: Path, user: str) -> Mapping[str, Any]:
    server = {"server": "https://127.0.0.1:6443", "certificate-authority": f"{folder}/ca.crt"}
    keys = {"client-certificate": f"{folder}/{user}.crt", "client-key": f"{folder}/{user}.key"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": server}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": user, "context": {"cluster": "here", "user": user}}],
        "current-context": user,
    }


def _kubelet(folder: Path) -> Mapping[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": f"{folder}/ca.crt"},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{folder}/kubelet.crt",
        "tlsPrivateKeyFile": f"{folder}/kubelet.key",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "clusterDNS": [BRIDGE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "failSwapOn": False,
        "failCgroupV1": False,
        "oomScoreAdj": 0,
        "serializeImagePulls": False,
        "syncFrequency": "5s",  # how soon a changed Secret is in its pods
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }


def _proxy(folder: Path) -> Mapping[str, Any]:
    untouched = {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    }
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": f"{folder}/admin.conf"},
        "clusterCIDR": PODS,
        "conntrack": untouched,
    }


def _network() -> Mapping[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    mapped = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, mapped]}


def _containerd(folder: Path) -> str:
    return f"""version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
