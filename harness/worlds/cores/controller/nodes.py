"""A simulated client that carries out procedures of `kraft_controller` on the nodes of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import frozen

from harness.history import Event, Info, Reply, Request, Response, SessionEvent, WatchFired
from harness.worlds.cores.store.client import Client, call_of
from harness.worlds.cores.store.simulator import StoreSimulator
from kraft_controller.core import store_requests as requests
from kraft_controller.core.names import Version

_WHY: Final = {
    "NO_NODE": requests.Why.NO_NODE,
    "NODE_EXISTS": requests.Why.EXISTS,
    "BAD_VERSION": requests.Why.BAD_VERSION,
    "NOT_EMPTY": requests.Why.NOT_EMPTY,
}
_NOT_THE_REASON: Final = ("", "OK", "RUNTIME_INCONSISTENCY")


@frozen
class Pause:
    """A pause of a procedure."""

    ms: int


@frozen
class Note:
    """The creation of a sequential node, a notification for the controller."""

    path: str
    data: bytes


@frozen
class Strike:
    """A fault of the client's process on one side of a request."""

    edge: str
    inject: Callable[[], None]


class NodesClient(Client):
    """A client that reports replies to the callers of requests (None if a reply is lost), and events to its owner."""

    def __init__(
        self,
        world: StoreSimulator,
        number: int,
        on_watch_event: Callable[[str], None],
        on_session_event: Callable[[str], None],
    ) -> None:
        super().__init__(world, number)
        self._on_watch_event, self._on_session_event = on_watch_event, on_session_event
        self._callbacks: dict[int, Callable[[Reply | None], None]] = {}
        self.strike_at: Callable[[Request], Strike | None] = lambda request: None
        """Returns the strike that is due at a request that is about to be sent."""

    def request(self, request: Request, done: Callable[[Reply | None], None]) -> None:
        strike = self.strike_at(request) if self.connected and not self.vanished else None
        if strike is not None and strike.edge == "before":
            strike.inject()
        call = call_of(self.world.next_call(), request)
        self._callbacks[call.number] = done
        self.call(call)
        if strike is not None and strike.edge == "after":
            strike.inject()

    def saw(self, event: Event) -> None:
        super().saw(event)
        if isinstance(event, Response):
            self._callbacks.pop(event.call)(event.reply)
        elif isinstance(event, Info):
            self._callbacks.pop(event.call)(None)
        elif isinstance(event, WatchFired):
            self._on_watch_event(event.path)
        elif isinstance(event, SessionEvent):
            self._on_session_event(event.state)

    def die(self) -> None:
        """End the process. It neither sends nor receives any more, and its session expires."""
        self._rest()
        self.vanished = True


class Job:
    """One procedure in progress. It continues in a later event when all replies of a step have arrived."""

    def __init__(
        self,
        client: NodesClient,
        later: Callable[[int, Callable[[], None]], None],
        work: Any,
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._client, self._later, self._work = client, later, work
        self._done, self._failed = done, failed
        self._found: list[Any] = []
        self._open = 0
        self.over = False
        self._step(None)

    def drop(self) -> None:
        """Abandon the procedure. Requests in flight may still be applied."""
        if not self.over:
            self.over = True
            self._work.close()

    def _step(self, results: Sequence[requests.Result] | None) -> None:
        if self.over:
            return
        try:
            operations = next(self._work) if results is None else self._work.send(results)
        except StopIteration as end:
            self.over = True
            self._done(end.value)
            return
        except Exception as error:  # the caller decides whether it is a violation
            self.over = True
            self._failed(error)
            return
        self._found, self._open = [None] * len(operations), len(operations)
        for place, operation in enumerate(operations):
            if isinstance(operation, Pause):
                self._later(operation.ms * 1_000, lambda place=place: self._put(place, requests.Done()))  # type: ignore[misc]
            else:
                self._request(place, operation)

    def _request(self, place: int, operation: requests.Operation | Note) -> None:
        self._client.request(request_of(operation), lambda reply: self._on_reply(place, operation, reply))

    def _on_reply(self, place: int, operation: requests.Operation | Note, reply: Reply | None) -> None:
        if self.over:
            return
        if reply is None and not isinstance(operation, requests.Multi | Note):
            self._later(0, lambda: None if self.over else self._request(place, operation))  # reads may be repeated
        else:
            self._put(place, result_of(operation, reply))

    def _put(self, place: int, result: requests.Result) -> None:
        self._found[place] = result
        self._open -= 1
        if not self._open:
            self._later(0, lambda: self._step(self._found))


def request_of(operation: requests.Operation | Note) -> Request:
    match operation:
        case requests.Get(path, watch) | requests.Exists(path, watch) | requests.Children(path, watch):
            return Request(type(operation).__name__.lower(), path, watch="once" if watch else "")
        case requests.Sync(path):
            return Request("sync", path)
        case requests.Multi(changes):
            return Request("multi", parts=tuple(map(_part, changes)))
        case Note(path, data):
            return Request("create", path, data, mode="sequential")


def _part(change: requests.Change) -> Request:
    match change:
        case requests.Check(path, version):
            return Request("check", path, version=version)
        case requests.Create(path, data, ephemeral):
            return Request("create", path, data, mode="ephemeral" if ephemeral else "")
        case requests.Set(path, data, version):
            return Request("set", path, data, version)
        case requests.Delete(path, version):
            return Request("delete", path, version=version)


def result_of(operation: requests.Operation | Note, reply: Reply | None) -> requests.Result:
    if reply is None:
        return requests.Failed(requests.Why.UNKNOWN)
    if isinstance(operation, requests.Multi):
        for place, part in enumerate(reply.parts):
            if part.error not in _NOT_THE_REASON:
                return requests.Failed(_WHY[part.error], place)
        assert not reply.error, f"{operation}: {reply}"
        sets = [isinstance(change, requests.Set) for change in operation.changes]
        return requests.Done(
            tuple(
                Version(part.stat.version) if is_set and part.stat is not None else None
                for is_set, part in zip(sets, reply.parts, strict=True)
            )
        )
    if reply.error:
        return requests.Failed(_WHY[reply.error])
    if isinstance(operation, requests.Children):
        return requests.Listing(reply.children or ())
    if reply.stat is None or isinstance(operation, Note):
        return requests.Done()
    stat = reply.stat
    return requests.Node(reply.data, Version(stat.version), stat.czxid, stat.owner, stat.pzxid, stat.mzxid)
