"""A broker that asks everybody for a certificate and a password, and secrets as files to rotate."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from mesh.local.broker_jvm import BrokerJvm
from mesh.local.broker_settings import BrokerAddress
from mesh.local.embedded import EmbeddedKafka
from mesh.local.jars import KafkaSoftware
from mesh.local.ports import LOOPBACK, free_port
from tests.patience import PATIENCE_S

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Authorities:
    """Certificate authorities by name, and what they signed, in one folder."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        for name in names:
            self._openssl(
                *("req", "-x509", "-days", "2", "-subj", f"/CN={name}", *self._key(name)),
                *("-out", f"{name}.crt"),
            )

    def sign(self, name: str, authority: str) -> tuple[str, str]:
        """Return certificate and key, as PEM, for somebody on loopback."""
        self._openssl("req", "-subj", f"/CN={name}", *self._key(name), "-out", f"{name}.csr")
        (self._folder / "names").write_text(f"subjectAltName=IP:{LOOPBACK}\n", encoding="utf-8")
        self._openssl(
            *("x509", "-req", "-days", "2", "-in", f"{name}.csr", "-out", f"{name}.crt"),
            *("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial"),
            *("-extfile", "names"),
        )
        return self.certificate(name), (self._folder / f"{name}.key").read_text(encoding="utf-8")

    def certificate(self, name: str) -> str:
        """Return a certificate as PEM."""
        return (self._folder / f"{name}.crt").read_text(encoding="utf-8")

    @staticmethod
    def _key(name: str) -> Sequence[str]:
        curve = "ec_paramgen_curve:P-256"
        return ("-newkey", "ec", "-pkeyopt", curve, "-nodes", "-keyout", f"{name}.key")

    def _openssl(self, *arguments: str) -> None:
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=self._folder, check=True, capture_output=True)


class SecuredKafka(EmbeddedKafka):
    """One broker with a second listener, on which both sides show certificates and clients log in.

    Attributes:
        authorities: Who has signed its certificate and those of clients.
    """

    def __init__(
        self,
        folder: Path,
        software: KafkaSoftware,
        authorities: Authorities,
        trusted: Sequence[str],
    ) -> None:
        super().__init__("secured", folder, software)
        self._stores = folder
        self.authorities = authorities
        self._secure_port = free_port()
        self._trusted = trusted

    @property
    def secured_servers(self) -> str:
        """The address for clients that log in."""
        return f"{LOOPBACK}:{self._secure_port}"

    def allow(self, user: str, password: str) -> None:
        """Let a user in by this password."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter(UserScramCredentialUpsertion(user, how, password.encode()))

    def forbid(self, user: str) -> None:
        """Let a user in no more; who is in is asked again within seconds."""
        self._alter(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))

    def _alter(self, alteration: object) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for done in admin.alter_user_scram_credentials([alteration]).values():
            done.result(PATIENCE_S)

    def _properties(self, jvm: BrokerJvm, address: BrokerAddress) -> str:
        self._stores.mkdir(exist_ok=True)
        own = self._stores / "broker.pem"
        if not own.exists():
            certificate, key = self.authorities.sign("broker", "brokers")
            own.write_text(key + certificate, encoding="utf-8")
        trust = self._stores / "trusted.pem"
        trust.write_text("".join(map(self.authorities.certificate, self._trusted)), "utf-8")
        secured = "listener.name.secured"
        more: Mapping[str, str] = {
            "listeners": f"PLAINTEXT://{address.bootstrap},SECURED://{self.secured_servers},"
            f"CONTROLLER://{LOOPBACK}:{address.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{address.bootstrap},"
            f"SECURED://{self.secured_servers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SECURED:SASL_SSL",
            f"{secured}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{secured}.scram-sha-512.sasl.jaas.config": LOGIN,
            f"{secured}.connections.max.reauth.ms": "3000",
            f"{secured}.ssl.client.auth": "required",
            f"{secured}.ssl.keystore.type": "PEM",
            f"{secured}.ssl.keystore.location": str(own),
            f"{secured}.ssl.truststore.type": "PEM",
            f"{secured}.ssl.truststore.location": str(trust),
        }
        lines = "".join(f"{name}={value}\n" for name, value in more.items())
        return super()._properties(jvm, address) + lines  # of two lines the later counts


class Secrets:
    """A folder as Kubernetes mounts a Secret: files behind one link, changed all at once."""

    NAMES: ClassVar[Mapping[str, str]] = {
        "sasl.username": "${{file:{}/username}}",
        "sasl.password": "${{file:{}/password}}",
        "ssl.ca.location": "{}/ca.crt",
        "ssl.certificate.location": "{}/user.crt",
        "ssl.key.location": "{}/user.key",
    }

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        folder.mkdir()

    def options(self) -> Mapping[str, str]:
        """Return the options of a Kafka client that lead to the files."""
        found = {name: form.format(self._folder) for name, form in self.NAMES.items()}
        return {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **found}

    def write(self, content: Mapping[str, str]) -> None:
        """Replace all files by these."""
        self._count += 1
        fresh = self._folder / f"..{self._count}"
        fresh.mkdir()
        for name, text in content.items():
            (fresh / name).write_text(text, encoding="utf-8")
            (fresh / name).chmod(0o600)
            if not (self._folder / name).is_symlink():
                (self._folder / name).symlink_to(f"..data/{name}")
        link = self._folder / "..next"
        link.symlink_to(fresh.name)
        link.replace(self._folder / "..data")
