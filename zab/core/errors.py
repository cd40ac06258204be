"""The errors of the core, and those that the calls of a member raise."""

from __future__ import annotations

from collections.abc import Mapping


def present_as(package: str, module: Mapping[str, object]) -> None:
    """Set `__module__` of the errors that `module` defines to `package`, from which users import them."""
    for each in list(module.values()):
        if isinstance(each, type) and issubclass(each, Exception) and each.__module__ == module["__name__"]:
            each.__module__ = package


class ZabError(Exception):
    """Base of the public error classes of this package."""


class LocalProtocolError(ZabError):
    """The call is forbidden in this state or with these arguments. Usually the caller has a bug."""


class RemoteProtocolError(ZabError):
    """A peer broke the protocol. Its link is closed; the links to all other peers stay open."""


class StorageError(ZabError):
    """The disk failed, or its files cannot be used. A server that cannot write its log stops; the others continue."""


class DamagedError(StorageError):
    """The data on the disk are inconsistent or unreadable, and not because a crash tore the last write."""


class ConfigError(ZabError):
    """A setting or an argument is invalid, or a change of membership is invalid or not possible now."""

    def __init__(self, *args: object, why: str = "") -> None:
        super().__init__(*args)
        self.why = why or str(self)
        """The reason without the faulty line, which the message quotes; the whole message if made without `why`."""


class NotLeader(ZabError):
    """Only an established leader can do this, and this server is not one. Ask the current leader."""


class Overloaded(ZabError):
    """A limit is reached. If it limits outstanding work, wait until some is done, then try again."""


class ReconfigInProgress(ConfigError):
    """Another change of membership is not decided yet. Wait for it."""


class WrongVersion(ConfigError):
    """The membership is not at the version that the caller expected. Read it again before you change it."""


class NewConfigNoQuorum(ConfigError):
    """Too few voters of the new membership follow the leader and are synced. Start them first.

    A server that still follows as an observer does not count, nor does one that may have lost promises, such as one
    that was started on an empty directory with `autocreate=False`.
    """


class Refused(ZabError):
    """The request was refused, usually by the state machine's `prepare`, and changed nothing. The message says why."""


class LeadersLost(Refused):
    """The request changed nothing: `Limits.leaders_lost_max` leaders in a row were lost while it was under way."""


class OutcomeUnknown(ZabError):
    """The request may have been carried out, and this can no longer be found out.

    For example, a client's connection was lost before the reply; or a snapshot, which may contain the request, has
    replaced the state of a member; or the leader was lost before it answered a change of membership. Look at the state,
    then decide whether to repeat the request.
    """


class Stopped(ZabError):
    """This member was not started, has stopped or has failed. A request without an outcome may still be carried out."""


class ChangeLost(ZabError):
    """The leader that proposed this change of membership was lost, and the change with it. Repeat the change."""


present_as("zab", globals())


class WireError(RemoteProtocolError):
    """The bytes from a peer are not a valid message."""
