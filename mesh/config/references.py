"""`${env:NAME}` and `${file:PATH}` in Kafka options, resolved where a connection is made.

A topology keeps the references and never the secrets, so it can be printed and published.
The environment is handed in: one place of the program reads it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mesh.config import reading
from mesh.config.kafka_options import SERVERS, SERVERS_RULE, bootstrap_fault
from mesh.errors import ConfigError, Problem

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_SECRET_BYTES_MAX = 64 * 1024


def read_secret_file(path: str) -> str:
    """Return the text of a secret file without its final line break.

    Raises:
        ValueError: It cannot be read, it is a pipe that nobody writes to, everybody may read it, or
            it is no secret's size.
    """
    try:
        mode = stat.S_IMODE(Path(path).stat().st_mode)
        data = b"" if mode & stat.S_IROTH else reading.read_file(path, _SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"file {path} cannot be read: {error.strerror}; check the path") from error
    if mode & stat.S_IROTH:
        raise ValueError(f"file {path} has mode {mode:04o}, readable by everybody; chmod 0600 it")
    if len(data) > _SECRET_BYTES_MAX:
        raise ValueError(f"file {path} has more than 64 KiB; no secret is as long, check the path")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"file {path} is not UTF-8 at byte {error.start}; correct it") from error


def files_of(options: Mapping[str, str]) -> list[str]:
    """Return every file that Kafka options lead to: references, and paths that librdkafka reads."""
    referred = [
        match[2]
        for value in options.values()
        for match in _REFERENCE.finditer(value)
        if match[1] == "file"
    ]
    named = [value for option, value in options.items() if option.endswith(".location")]
    return list(dict.fromkeys([*referred, *(value for value in named if "/" in value)]))


def resolve_options(
    options: Mapping[str, str],
    *,
    environment: Mapping[str, str],
    read_file: Callable[[str], str] = read_secret_file,
    where: str = "",
) -> Mapping[str, str]:
    """Return Kafka options with every reference replaced by what it stands for.

    Args:
        options: As in `KafkaCluster.options`.
        environment: Variables by name.
        read_file: Returns the text of a file or raises ValueError with one line.
        where: The Kafka cluster, for messages, for example `spec.kafka.tokyo`.

    Raises:
        ConfigError: A variable is not set, a file cannot be had, or brokers have no address then;
            lists all problems.
    """
    problems: list[Problem] = []

    def replacement(option: str, match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        try:
            return environment[name] if kind == "env" else read_file(name)
        except KeyError:
            message = f"environment variable {name} is not set; set it"
        except ValueError as error:
            message = str(error)
        place = f"{where}.{option}" if where else option
        problems.append(Problem(code="UNRESOLVED", message=message, where=place))
        return ""

    resolved = {
        option: _REFERENCE.sub(partial(replacement, option), value)
        for option, value in options.items()
    }
    servers = options.get(SERVERS, "")
    if not problems and "${" in servers and bootstrap_fault(resolved[SERVERS]) is not None:
        # A variable that is set and empty, for one: brokers would be waited for that are nowhere.
        message = f"{servers} stands for no list of brokers; {SERVERS_RULE}"
        place = f"{where}.{SERVERS}" if where else SERVERS
        problems.append(Problem(code="UNRESOLVED", message=message, where=place))
    if problems:
        raise ConfigError(problems)
    return resolved
