"""When certificates end, beside what openssl says of them."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.config.tls_certificates import end_s


def made(folder: Path, name: str, *options: str) -> tuple[str, float]:
    """Return a certificate and its end as openssl tells it."""
    file = folder / f"{name}.crt"
    command = ["openssl", "req", "-x509", "-nodes", "-subj", f"/CN={name}"]
    command += ["-keyout", str(folder / "key"), "-out", str(file), *options]
    subprocess.run(command, check=True, capture_output=True)
    ask = ["openssl", "x509", "-noout", "-enddate", "-in", str(file)]
    expiry = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    return file.read_text(encoding="utf-8"), ssl.cert_time_to_seconds(expiry.strip().split("=")[1])


EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def test_the_end_is_what_openssl_says(tmp_path: Path) -> None:
    """Of either form of time: years after 2049 have four digits; of several the first ends."""
    soon, soon_s = made(tmp_path, "soon", *EC, "-days", "3")
    late, late_s = made(tmp_path, "late", *EC, "-days", "36500")
    assert end_s(soon) == soon_s
    assert end_s(f"Bag Attributes\n{late}") == late_s
    assert end_s(late + soon) == soon_s


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_refused_and_nothing_else(junk: bytes) -> None:
    for text in (junk.decode("latin-1"), ssl.DER_cert_to_PEM_cert(junk)):
        with pytest.raises(ValueError):
            end_s(text)
