"""The server of the store's clients: who is served and how, what waits, and what is told of a session."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

SERVICE: Final = "zab.service"
CLIENTS: Final = f"{SERVICE}.client_service:ClientService"
CONNECTION: Final = f"{SERVICE}.connection.client_connection:ClientConnection"
HANDSHAKE: Final = f"{SERVICE}.connection.handshake:SessionHandshake"
PIPELINE: Final = f"{SERVICE}.connection.request_pipeline:RequestPipeline"
TRACKER: Final = f"{SERVICE}.session_tracker:SessionTracker"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- without a leader ------------------------------------------------------------------------------
    mutant(
        "client-kept-without-a-leader",
        "a server that cannot reach a leader keeps its clients until their sessions have expired elsewhere",
        (f"{CLIENTS}.check", "client.ended(why)", "pass"),
        machine="store",
    ),
    mutant(
        "reader-kept-with-a-leader",
        "a read-only client stays read-only after its server has found a leader",
        (
            f"{CLIENTS}._update_readiness",
            'connection.cut("there is a leader again: the client may write after it reconnects")',
            "pass",
        ),
        machine="store",
    ),
    mutant(
        "reader-sees-an-older-state",
        "a server without a leader serves a client that has seen a later state than the server has",
        (f"{HANDSHAKE}._caught_up", "if asked.last_zxid_seen > server.machine.zxid:", "if False:"),
        machine="store",
    ),
    mutant(
        "reader-writes",
        "a server without a leader accepts writes, which wait for the next leader",
        (f"{PIPELINE}._take_all", "if read_only and op not in _READS:", "if False:"),
        machine="store",
    ),
    # -- local sessions --------------------------------------------------------------------------------
    mutant(
        "local-session-dies-alive",
        "a local session expires although its client is active",
        (f"{TRACKER}._check_local", "sessions.local.touch(alive, now)", "pass"),
        machine="store",
    ),
    mutant(
        "upgraded-behind-its-node",
        "the request that needs the upgrade of a local session overtakes the upgrade",
        (
            f"{PIPELINE}._take_of_local",
            """
            server.sessions.upgrade(client.session)
            self._local, self._flags = False, FOREIGN
            self._take_all(requests[index:])
            """,
            """
            self._local, self._flags = False, FOREIGN
            self._take_all(requests[index:])
            server.sessions.upgrade(client.session)
            """,
        ),
        machine="store",
    ),
    # -- throttles -------------------------------------------------------------------------------------
    mutant(
        "open-requests-leak",
        "the open requests of a closed connection count for ever",
        (f"{PIPELINE}.drop", "self._totals.open_requests -= self._counted", "pass"),
        machine="store",
    ),
    mutant(
        "throttled-and-done",
        "a request that is refused as late is executed all the same",
        (
            f"{PIPELINE}._take_throttled",
            "self._put(op, xid, PendingReply(ErrorCode.THROTTLED_OP, done=True))",
            """
            self._put(op, xid, PendingReply(ErrorCode.THROTTLED_OP, done=True))
            if op in _WRITES:
                head = HEAD.pack(self._flags, self._client.session, xid, op, self._server.me, 4)
                self._requests.post(head + bytes(4) + body, lambda result, error: None)
            """,
        ),
        machine="store",
    ),
    mutant(
        "tokens-never-come-back",
        "a server to which clients reconnect often never admits one of them",
        (
            f"{SERVICE}.throttle:ConnectionThrottle.take",
            """
            if passed > settings.connection_fill_ms:
                come_back = passed * settings.connection_fill_count // settings.connection_fill_ms
                self._tokens = min(self._tokens + come_back, settings.connection_tokens)
                self._filled_at = now_ms
            """,
            """
            if passed > settings.connection_fill_ms:
                come_back = passed * settings.connection_fill_count // settings.connection_fill_ms
                self._tokens = min(self._tokens + come_back, settings.connection_tokens)
            self._filled_at = now_ms
            """,
        ),
        machine="store",
    ),
    # -- replies and sessions --------------------------------------------------------------------------
    mutant(
        "pings-held",
        "pings behind pending requests are not answered, so the client assumes that its server is dead",
        (f"{PIPELINE}._answer_pings", "if request[1] == _PING:", "if False:"),
        machine="store",
    ),
    mutant(
        "pings-lost-behind-a-close",
        "pings behind a request to close are not answered, so the client leaves before its session is closed",
        (f"{PIPELINE}._take_all", "self._answer_pings(requests[index:])", "pass"),
        machine="controller",
    ),
    mutant(
        "sync-of-yesterday",
        "the reply to a sync has the zxid from the time of the request",
        (
            f"{PIPELINE}._sync",
            "reply = PendingReply(value=fields[0])",
            "reply = PendingReply(value=fields[0], zxid=self._machine.zxid)",
        ),
        machine="store",
    ),
    mutant(
        "timeout-of-the-last-request",
        "a reconnecting client is told the timeout that it requests now, but its session keeps the old one",
        (
            f"{HANDSHAKE}._attached",
            "self._conclude(self._asked.session, timeout_ms)",
            "self._conclude(self._asked.session, self.timeout_ms)",
        ),
        machine="store",
    ),
    mutant(
        "followers-stop-reaping",
        "a server that did not lead when a check for containers was due never checks again",
        (
            f"{SERVICE}.container_reaper:ContainerReaper.due",
            "found.clear()",
            "settings = type(settings)(1 << 40)",
        ),
        machine="store",
    ),
)
