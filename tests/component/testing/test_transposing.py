"""Files of an image for another kind of machine: packages replaced, all else kept."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh.errors import StartError
from mesh.testing.machines import MACHINES
from mesh.testing.transposing import assemble
from tests.conftest import Unavailable

HERE, THERE = MACHINES["amd64"], MACHINES["arm64"]


def elf(machine: int) -> bytes:
    """Return the beginning of a program for a machine."""
    return b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little")


STATUS = """\
Package: tool
Status: install ok installed
Architecture: amd64
Version: 1.0

Package: words
Status: install ok installed
Architecture: all
Version: 2.0
"""
IMAGE: Mapping[str, bytes] = {
    "var/lib/dpkg/status": STATUS.encode(),
    "var/lib/dpkg/info/tool:amd64.list": b"/.\n/bin\n/bin/tool\n/usr/share\n/usr/share/tool.txt\n",
    "var/lib/dpkg/info/tool:amd64.md5sums": b"",
    "var/lib/dpkg/info/words.list": b"/.\n/usr/share\n/usr/share/words\n",
    "usr/bin/tool": elf(HERE.elf),
    "usr/share/tool.txt": b"of a former version",
    "usr/share/words": b"alpha",
    "etc/passwd": b"mesh:x:1000",
    "etc/ld.so.cache": b"names of libraries",
}
LINKS = {"bin": "usr/bin", "etc/alternatives/tool": "/usr/lib/tool-amd64/x86_64-linux-gnu/tool"}


@pytest.fixture
def package(tmp_path: Path, unavailable: Unavailable) -> Path:
    """The package of the tool for the other machine."""
    if shutil.which("dpkg-deb") is None:
        unavailable("docker", "dpkg-deb is not installed: it is Debian's")
    control = "Package: tool\nVersion: 1.0+b1\nArchitecture: arm64\nMulti-Arch: same\n"
    control += "Maintainer: Nobody <nobody@example.org>\nDescription: a tool\n"
    content = {
        "DEBIAN/control": control.encode(),
        "bin/tool": elf(THERE.elf),
        "usr/share/doc/tool/copyright": b"left out, as in the bases",
    }
    for name, data in content.items():
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    made = tmp_path / "tool.deb"
    build = ["dpkg-deb", "--root-owner-group", "--build", tmp_path / "tree", made]
    subprocess.run(build, check=True, capture_output=True)
    return made


def assembled(tmp_path: Path, package: Path, **more: bytes) -> Mapping[str, bytes | str]:
    """Return what is in the image for the other machine: contents, and where links lead."""
    kept = io.BytesIO()
    with tarfile.open(fileobj=kept, mode="w") as files:
        for name, data in {**IMAGE, **more}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            files.addfile(member, io.BytesIO(data))
        for name, target in LINKS.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            files.addfile(member)
    kept.seek(0)
    layer = tmp_path / "layer.tar"
    with tarfile.open(fileobj=kept) as files:
        assemble(layer, files, [package], HERE, THERE)
    found: dict[str, bytes | str] = {}
    with tarfile.open(layer) as made:
        for one in made:
            assert one.name not in found
            content = made.extractfile(one) if one.isreg() else None
            if not one.isdir():
                found[one.name] = one.linkname if content is None else content.read()
    return found


def test_what_is_compiled_is_replaced_and_all_else_kept(tmp_path: Path, package: Path) -> None:
    """`/bin` stays a link, and what belongs to nobody stays as it was made here."""
    found = dict(assembled(tmp_path, package))
    status = str(found.pop("var/lib/dpkg/status"), "utf-8")  # type: ignore[arg-type]
    assert found == {
        "usr/bin/tool": elf(THERE.elf),
        "usr/share/words": b"alpha",
        "etc/passwd": b"mesh:x:1000",
        "bin": "usr/bin",
        "etc/alternatives/tool": "/usr/lib/tool-arm64/aarch64-linux-gnu/tool",
        "var/lib/dpkg/info/words.list": IMAGE["var/lib/dpkg/info/words.list"],
        "var/lib/dpkg/info/tool:arm64.list": b"/usr/bin\n/usr/bin/tool\n/usr\n/usr/share\n"
        b"/usr/share/doc\n",
    }
    assert "Version: 1.0+b1" in status
    assert "Architecture: amd64" not in status
    assert status.count("Status: install ok installed\n") == 2


def test_a_program_for_this_machine_is_refused(tmp_path: Path, package: Path) -> None:
    """As a package of Python that has no other: it would fail where the image runs."""
    stray = {"opt/mesh/stray.so": elf(HERE.elf)}
    with pytest.raises(StartError, match=r"/opt/mesh/stray\.so does not run on arm64"):
        assembled(tmp_path, package, **stray)


@pytest.mark.parametrize("left", [0.0, 0.5, 0.9])
def test_a_damaged_package_is_told_in_a_line(tmp_path: Path, package: Path, left: float) -> None:
    """As a download that was cut off: of it nothing, its fields or some of its files are there."""
    whole = package.read_bytes()
    package.write_bytes(whole[: int(len(whole) * left)])
    with pytest.raises(StartError, match=r"^tool\.deb cannot be unpacked: dpkg-deb[^\n]+$"):
        assembled(tmp_path, package)
