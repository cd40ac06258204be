"""What can go wrong, sorted by who has to act."""

from __future__ import annotations

from collections.abc import Mapping


def present_as(package: str, module: Mapping[str, object]) -> None:
    """Let the errors that a module has defined so far appear under the package where users find them."""
    for each in list(module.values()):
        if isinstance(each, type) and issubclass(each, Exception) and each.__module__ == module["__name__"]:
            each.__module__ = package


class ZabError(Exception):
    """Base of every error of this package."""


class LocalProtocolError(ZabError):
    """Our own caller asked for something that the protocol forbids now. A bug upstairs."""


class RemoteProtocolError(ZabError):
    """A peer broke the rules. Its link is cut; everybody else is served on."""


class StorageError(ZabError):
    """The disk failed or lied. This server stops; the others carry on."""


class DamagedError(StorageError):
    """What is on the disk contradicts itself, and no torn tail explains it."""


class ConfigError(ZabError):
    """A configuration, or a change of membership, that makes no sense. The message says where."""


class NotLeader(ZabError):
    """Only a leader in broadcast can do this, and this server is none. Ask the current leader."""


class Overloaded(ZabError):
    """As much is outstanding as the settings allow. Wait for some of it to finish, then try again."""


class ReconfigInProgress(ConfigError):
    """Another change of membership is not decided yet. Wait for it."""


class WrongVersion(ConfigError):
    """The membership is not at the version that the caller expected. Look again before changing it."""


class NewConfigNoQuorum(ConfigError):
    """Too few voters of the new membership follow the leader and are synced. Start them first."""


present_as("zab", globals())


class WireError(RemoteProtocolError):
    """Bytes from a peer that are no message of ours."""
