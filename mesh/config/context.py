"""Contexts: which mesh a command speaks to when nobody names a file.

Kept per user as one JSON file with mode 0600, because addresses say where things are. `mesh up`
and `mesh demo` select one; `MESH_CONTEXT` wins over the selected one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from platformdirs import user_config_dir

from mesh.config.nearest import nearest
from mesh.errors import ConfigError, wrong_input
from mesh.model.names import fold, name_fault

VARIABLE = "MESH_CONTEXT"
"""Environment variable that names the context in force."""

_APPLICATION = "trellis-mesh"
_FILE = "contexts.json"


@dataclass(frozen=True, slots=True)
class Context:
    """One mesh by name.

    Attributes:
        name: What the user calls it.
        file: Its topology file, absolute.
        addresses: Bootstrap addresses of Kafka clusters, where they are not those of the file.
        is_local: Whether a mesh that was started on this machine left it, and the next one of its
            name may take its place once it has ended; those that people add are theirs.
        pid: Of the process that runs it, if it is local; 0 if that is not known.
        started_s: When that process began, since 1970; 0 if that is not known.
    """

    name: str
    file: Path
    addresses: Mapping[str, str] = field(default_factory=dict)
    is_local: bool = False
    pid: int = field(default=0, compare=False)
    started_s: float = field(default=0.0, compare=False)


@dataclass(slots=True)
class _Stored:
    contexts: dict[str, Context]
    selected: str
    previous: str


def save_context(context: Context) -> None:
    """Add a context, or replace the one of that name. It is not selected by this.

    Raises:
        ConfigError: The name is no name, or the folder cannot be written.
    """
    with _changing() as stored:
        _add(stored, context)


def select_local(context: Context) -> str:
    """Keep and select a mesh that was started on this machine; return what it is called.

    A context that a person has added is not touched, nor one of a mesh that runs: the mesh then
    gets the next free name, as in `prod-2`.

    Raises:
        ConfigError: As for `save_context`.
    """
    from mesh.config.process_start import start_of  # noqa: PLC0415 - few commands start a mesh

    names = (f"{context.name}-{number}" for number in count(2))
    name = context.name
    with _changing() as stored:
        while any(
            fold(one) == fold(name) and not _gives_way(stored, one, name) for one in stored.contexts
        ):
            name = next(names)
        own = replace(context, name=name, is_local=True, pid=os.getpid())
        _add(stored, replace(own, started_s=start_of(own.pid) or 0.0))
        _select(stored, name)
    return name


def select_context(name: str) -> None:
    """Make a saved context the one in force.

    Raises:
        ConfigError: No context is called that.
    """
    context_named(name)  # no folder is made for one that is unknown
    with _changing() as stored:
        _select(stored, _known(stored, name, "context").name)


def current_context() -> Context | None:
    """Return the context in force, or None if none was ever selected.

    Raises:
        ConfigError: `MESH_CONTEXT` names a context that does not exist.
    """
    stored = _load()
    if named := os.environ.get(VARIABLE, ""):
        return _known(stored, named, VARIABLE)
    return stored.contexts.get(stored.selected)


def previous_context() -> Context:
    """Return the context that was selected before the present one.

    Raises:
        ConfigError: There is none, or it has been removed.
    """
    stored = _load()
    if not stored.previous:
        text = "none was selected before: `mesh context use NAME`"
        raise wrong_input("context", text, code="NO_CONTEXT")
    return _known(stored, stored.previous, "context")


def list_contexts() -> Sequence[Context]:
    """Return the saved contexts by name."""
    stored = _load()
    return [stored.contexts[name] for name in sorted(stored.contexts)]


def context_named(name: str) -> Context:
    """Return a saved context.

    Raises:
        ConfigError: No context is called that.
    """
    return _known(_load(), name, "context")


def remove_context(name: str) -> None:
    """Forget a context; if it was selected, none is.

    Raises:
        ConfigError: No context is called that.
    """
    context_named(name)
    with _changing() as stored:
        del stored.contexts[_known(stored, name, "context").name]
        if stored.selected == name:
            stored.selected = ""
        if stored.previous == name:
            stored.previous = ""


def _gives_way(stored: _Stored, name: str, to: str) -> bool:
    """Return whether a context may be replaced by a mesh that was started on this machine."""
    from mesh.config.process_start import runs_still  # noqa: PLC0415 - few commands start a mesh

    found = stored.contexts[name]
    is_over = found.pid == os.getpid() or not runs_still(found.pid, found.started_s)
    return name == to and found.is_local and is_over


def _add(stored: _Stored, context: Context) -> None:
    if (fault := name_fault(context.name)) is not None:
        raise wrong_input("context", fault, code="BAD_NAME")
    for name in stored.contexts:
        if name != context.name and fold(name) == fold(context.name):
            text = (
                f"there is {name}, and case does not tell names apart; "
                f"choose another, or remove {name}"
            )
            raise wrong_input("context", text, code="NAME_CLASH")
    stored.contexts[context.name] = replace(context, file=context.file.absolute())


def _select(stored: _Stored, name: str) -> None:
    if name != stored.selected:
        stored.previous, stored.selected = stored.selected, name


def _path() -> Path:
    found = Path(user_config_dir(_APPLICATION))
    if found.parts[:1] == ("~",):  # nobody says where home is: it would be a folder of that name
        message = "there is no home folder to keep contexts in; set HOME or XDG_CONFIG_HOME"
        raise wrong_input("HOME", message, code="NO_HOME")
    return found / _FILE


def _known(stored: _Stored, name: str, where: str) -> Context:
    if name in stored.contexts:
        return stored.contexts[name]
    hint = nearest(name, list(stored.contexts)) or "; `mesh context add` and `mesh up` make one"
    raise wrong_input(where, f"no context is called {name!r}{hint}", code="UNKNOWN_CONTEXT")


def _load() -> _Stored:
    path = _path()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return _Stored({}, selected="", previous="")
    except OSError as error:
        text = f"cannot be read: {error.strerror}{_hint(error)}"
        raise wrong_input(str(path), text, code="UNREADABLE") from error
    try:
        data = json.loads(text)
        contexts = {
            name: Context(
                name,
                Path(one["file"]),
                _texts(one["addresses"]),
                one.get("local") is True,
                int(one.get("pid", 0)),
                float(one.get("started", 0)),
            )
            for name, one in data["contexts"].items()
        }
        return _Stored(contexts, str(data["selected"]), str(data.get("previous", "")))
    except (
        AttributeError,
        KeyError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        message = "is not a list of contexts; remove it, then add and select them again"
        raise wrong_input(str(path), message, code="UNREADABLE") from error


def _texts(addresses: Mapping[str, object]) -> Mapping[str, str]:
    """Return addresses by name; raise TypeError if one is no text."""
    if not all(isinstance(one, str) for one in addresses.values()):
        raise TypeError("an address is not text")
    return {name: str(one) for name, one in addresses.items()}


@contextmanager
def _changing() -> Iterator[_Stored]:
    """Yield what is kept, to be changed and then written: by one command at a time."""
    path = _path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with suppress(OSError):  # not every file system knows locks
            fcntl.flock(held, fcntl.LOCK_EX)
        stored = _load()
        yield stored
        _store(stored, path)
    finally:
        os.close(held)


def _store(stored: _Stored, path: Path) -> None:
    data = {
        "selected": stored.selected,
        "previous": stored.previous,
        "contexts": {
            name: {
                "file": str(one.file),
                "addresses": dict(one.addresses),
                "local": one.is_local,
                "pid": one.pid,
                "started": one.started_s,
            }
            for name, one in sorted(stored.contexts.items())
        },
    }
    # Written aside and renamed, so that a command started meanwhile never reads half of it.
    fresh = path.with_suffix(f".{os.getpid()}.new")
    try:
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=2)
        fresh.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigError:
    text = f"cannot be written: {error.strerror}{_hint(error)}"
    return wrong_input(str(path), text, code="UNWRITABLE")


def _hint(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "; check its rights"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "; a folder of that path is a file: move it away, or set XDG_CONFIG_HOME"
    return ""
