"""Images for another kind of machine, made without running anything of that kind.

Such an image is built as always, on a base for this machine, but with Python's packages for the
other. What is compiled in it and not for the other machine is Debian's then. Here each of these
packages is replaced by what the same one for the other machine has, unpacked and not installed. All
else is the same everywhere: users, links, certificates, compiled modules of Python, jars.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mesh.errors import StartError
from mesh.local.jars import Progress
from mesh.testing.contents import (
    DPKG_STATUS,
    debian_packages,
    docker,
    fields,
    files_of,
    text_of,
)
from mesh.testing.machines import Machine

LISTS = "var/lib/dpkg/info/"
MADE_BY_SCRIPTS = ("etc/ld.so.cache",)
"""What is for one machine and belongs to no package; libraries are found without it."""

LEFT_OUT = re.compile(r"usr/(share/(doc|man|locale|info)|lib/[^/]+/gconv)/")
"""As in the bases that are made here: `build-base.sh` says why."""


def transpose(image: str, name: str, here: Machine, there: Machine, progress: Progress) -> None:
    """Make an image for another machine of one whose Debian is for this machine.

    Args:
        image: Made here, with Python's packages for the other machine.
        name: Of what is made.
        here: For which Debian's packages are in it.
        there: For which they will be.
        progress: Told what is going on.

    Raises:
        StartError: Packages cannot be had, or something in it would not run there.
    """
    for need in ("apt-get", "dpkg-deb"):
        if shutil.which(need) is None:
            raise StartError(f"{need} not found: images for another machine are made on Debian")
    with files_of(image) as files, tempfile.TemporaryDirectory(prefix="trellis-image-") as folder:
        work = Path(folder)
        known = debian_packages(files)
        compiled = [one for one in known if fields(known[one])["Architecture"] == here.name]
        progress(f"fetching {len(compiled)} packages of Debian for {there.name}")
        packages = _Packages(work, files, there).fetched(compiled)
        layer = work / "layer.tar"
        progress(f"assembling {name}")
        assemble(layer, files, packages, here, there)
        _load(layer, image, name, there)


def assemble(
    layer: Path, files: tarfile.TarFile, packages: Sequence[Path], here: Machine, there: Machine
) -> None:
    """Write the files of an image, with packages of Debian in place of those of the same names.

    Args:
        layer: What is written.
        files: Of the image.
        packages: For the other machine.
        here: For which those in the image are.
        there: The other machine.

    Raises:
        StartError: There is a program that would not run there.
    """
    with tarfile.open(layer, "w") as out:
        made = _Layer(out, files, here, there)
        made.add_rest(made.add_packages(packages))


@dataclass(slots=True)
class _Packages:
    """Fetches packages as the image's own list of sources says."""

    work: Path
    files: tarfile.TarFile
    there: Machine

    def fetched(self, names: Sequence[str]) -> Sequence[Path]:
        for folder in ("lists/partial", "archives/partial", "debs"):
            (self.work / "apt" / folder).mkdir(parents=True)
        sources = [one for one in self.files if one.name.startswith("etc/apt/") and one.isreg()]
        self.files.extractall(self.work / "apt", sources, filter="data")
        (self.work / "apt" / "status").touch()
        self._apt("update")
        self._apt("download", *names)
        return sorted((self.work / "apt" / "debs").glob("*.deb"))

    def _apt(self, *arguments: str) -> None:
        apt = self.work / "apt"
        options = {
            "Dir::Etc": apt / "etc" / "apt",
            "Dir::State": apt,
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt,
            "APT::Architecture": self.there.name,
            "APT::Architectures": self.there.name,
            "APT::Sandbox::User": "root",  # the folder is that of whoever builds
            "Acquire::Languages": "none",
        }
        given = [word for key, one in options.items() for word in ("-o", f"{key}={one}")]
        command = ["apt-get", "-qq", *given, *arguments]
        done = subprocess.run(
            command, cwd=apt / "debs", capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise StartError(f"apt-get {arguments[0]} failed: {done.stderr.strip()[-300:]}")


@dataclass(slots=True)
class _Layer:
    """All files of the new image, as they are written."""

    out: tarfile.TarFile
    files: tarfile.TarFile
    here: Machine
    there: Machine
    _links: dict[str, str] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        top = [one for one in self.files if one.issym() and "/" not in one.name]
        self._links = {one.name: one.linkname for one in top if one.linkname.startswith("usr/")}

    def add_packages(self, packages: Sequence[Path]) -> Collection[str]:
        """Unpack packages, and note them where dpkg and scanners look; returns their names."""
        status, names = dict(debian_packages(self.files)), set[str]()
        for package in packages:
            about = _dpkg_deb("--field", package).decode().strip()
            told = fields(about)
            name = told["Package"]
            names.add(name)
            status[name] = about.replace("\n", "\nStatus: install ok installed\n", 1)
            of = f"{name}:{self.there.name}" if told["Multi-Arch"] == "same" else name
            paths = "".join(f"/{path}\n" for path in self._unpack(package))
            self._add_text(f"{LISTS}{of}.list", paths)
        self._add_text(DPKG_STATUS, "\n\n".join(status.values()) + "\n")
        return names

    def add_rest(self, replaced: Collection[str]) -> None:
        """Add what belongs to none of these packages."""
        mine, others = set[str](), set[str]()
        for one in self.files:
            owner = one.name.removeprefix(LISTS).rpartition(".")[0].partition(":")[0]
            if one.name.startswith(LISTS) and one.name.endswith(".list"):
                paths = map(self._place, text_of(self.files, one).split("\n"))
                (mine if owner in replaced else others).update(paths)
            if one.name.startswith(LISTS) and owner in replaced:
                mine.add(one.name)
        gone = mine - others | set(MADE_BY_SCRIPTS)
        gone |= self._written
        for one in self.files:
            if one.name in self._links or self._place(one.name) not in gone:
                self._add(one, self.files)

    def _unpack(self, package: Path) -> Iterator[str]:
        with tempfile.TemporaryFile() as tree:
            _dpkg_deb("--fsys-tarfile", package, tree)
            tree.seek(0)
            with tarfile.open(fileobj=tree) as files:
                for one in files:
                    one.name = self._place(one.name)
                    one.linkname = self._place(one.linkname) if one.islnk() else one.linkname
                    if one.name and not LEFT_OUT.match(one.name):
                        yield one.name
                        if one.name not in self._written:
                            self._add(one, files)

    def _place(self, path: str) -> str:
        """Return where a path of a package is: `/bin` and its like are links to others."""
        first, slash, rest = path.removeprefix(".").strip("/").partition("/")
        return self._links.get(first, first) + slash + rest

    def _add_text(self, name: str, text: str) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(text.encode())
        self._written.add(name)
        self.out.addfile(member, io.BytesIO(text.encode()))

    def _add(self, member: tarfile.TarInfo, files: tarfile.TarFile) -> None:
        self._written.add(member.name)
        if member.issym():
            one = member.linkname.replace(f"-{self.here.name}/", f"-{self.there.name}/")
            member.linkname = one.replace(self.here.triplet, self.there.triplet)
        content = files.extractfile(member) if member.isreg() else None
        data = b"" if content is None else content.read()
        if data.startswith(b"\x7fELF") and int.from_bytes(data[18:20], "little") != self.there.elf:
            raise StartError(
                f"/{member.name} does not run on {self.there.name}, and belongs to no package that "
                "could be replaced"
            )
        self.out.addfile(member, io.BytesIO(data) if member.isreg() else None)


def _dpkg_deb(option: str, package: Path, out: int | IO[bytes] = subprocess.PIPE) -> bytes:
    """Return what is in a package, unless it goes elsewhere.

    Raises:
        StartError: The package is damaged, or there is no room for what is in it.
    """
    command = ["dpkg-deb", option, str(package)]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise StartError(f"{package.name} cannot be unpacked: {why}")
    return done.stdout or b""


def _load(layer: Path, image: str, name: str, there: Machine) -> None:
    """Give the Docker engine an image of one layer that runs as another one does."""
    about = json.loads(docker("image", "inspect", image))[0]
    with layer.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    config = {
        "architecture": there.name,
        "os": "linux",
        "created": about["Created"],
        "config": about["Config"],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": about["Created"], "created_by": "mesh.testing.transposing"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": [layer.name]}]
    load = ["docker", "load", "--quiet"]
    loading = subprocess.Popen(load, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with suppress(BrokenPipeError), loading:  # what ended amid it says why
        assert loading.stdin is not None
        with tarfile.open(fileobj=loading.stdin, mode="w|") as archive:
            for file, value in (("config.json", config), ("manifest.json", manifest)):
                text = json.dumps(value).encode()
                member = tarfile.TarInfo(file)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
            archive.add(layer, layer.name)
        loading.stdin.close()
    if loading.returncode != 0:
        raise StartError(f"docker load of {name} failed with exit code {loading.returncode}")
