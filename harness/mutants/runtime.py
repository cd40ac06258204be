"""Mistakes of drivers, of the client port and of the client, which no core can make: for the world of real drivers."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

TRACKER: Final = "zab.service.session_tracker:SessionTracker"
COORDINATION: Final = "zab.runtime.store_server"
CONTROLLER: Final = "kraft_controller.runtime"
ANSWERED: Final = "__import__('sys').modules['kraft_controller.core.commands'].Answer(numbered.number, 0, {})"
"""A successful answer to the command in flight."""


def _of_drivers(name: str, bug: str, *edits: tuple[str, str, str], machine: str = "store") -> Mutant:
    return evolve(mutant(name, bug, *edits), world="stack", machine=machine)


def _of_controllers(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(_of_drivers(name, bug, *edits, machine="controller"), voters=(3,))


MUTANTS: Final[tuple[Mutant, ...]] = (
    _of_drivers(
        "saved-when-handed-over",
        "records count as durable when the writing thread receives them",
        (
            "zab.runtime.driver:Driver.send_and_save",
            "if ready.save and self._writer.put(ready.save):",
            "if ready.save and (self._writer.put(ready.save) or True):",
        ),
        machine="list",
    ),
    _of_drivers(
        "log-cut-short",
        "the first batch is left out when the log is sent to a learner",
        (
            "zab.runtime.learner_sync:LearnerSync._log_frames",
            "for batch in batches:",
            "for batch in list(batches)[1:]:",
        ),
        machine="list",
    ),
    _of_drivers(
        "submissions-forgotten",
        "the results of some submissions are dropped, so their callers wait for ever",
        (
            "zab.service.forwarding.pending_submissions:PendingSubmissions.applied",
            "if closed is None:",
            "if closed is None or counter % 7 == 0:",
        ),
    ),
    _of_drivers(
        "event-behind-the-reply",
        "events are sent after the replies of the same turn, which already show the changes",
        (
            "zab.service.connection.client_connection:ClientConnection.notify",
            "self.send(change.frame)",
            "vars(self).setdefault('late', []).append(change.frame); self._shell.output_ready()",
        ),
        (
            f"{COORDINATION}.connection_shell:ConnectionShell.flush",
            "self.connection.settle()",
            "[self._buffer.put(each) for each in vars(self.connection).pop('late', [])]; self.connection.settle()",
        ),
    ),
    _of_drivers(
        "watches-not-told-again",
        "a reconnected client does not register its watches at the new server",
        (
            "zab.client.session_setup:SessionSetup.frames",
            "for frame in self._watch_requests(last_zxid):",
            "for frame in ():",
        ),
    ),
    _of_drivers(
        "stopped-server-keeps-connections",
        "a stopped server leaves its connections open",
        (
            f"{COORDINATION}.connection_shell:ConnectionShell.run",
            "await self._close()",
            "await trio.lowlevel.checkpoint()",
        ),
    ),
    # -- controllers -----------------------------------------------------------------------------------
    _of_controllers(
        "link-outlives-a-life",
        "commands for a restarted broker go to the link of its former process, and are dropped",
        (
            "kraft_controller.core.command_channel:CommandChannel.update_brokers",
            "if broker is None or broker.epoch != queue.broker.epoch:",
            "if broker is None:",
        ),
    ),
    _of_controllers(
        "links-known-late",
        "commands for a new broker are sent before a link to it exists",
        (
            "kraft_controller.core.broker_request_batch:BrokerRequestBatch.send",
            """
            sink.update_brokers(self._context.brokers)
            for broker, command in self.take():
                sink.send(broker, command)
            """,
            """
            for broker, command in self.take():
                sink.send(broker, command)
            sink.update_brokers(self._context.brokers)
            """,
        ),
    ),
    _of_controllers(
        "unanswered-is-answered",
        "KAFKA-3916: a command without a response counts as received",
        (
            f"{CONTROLLER}.command_connections:_Connection._attempt",
            "await trio.sleep(self._settings.backoff_s)",
            f"queue.replied({ANSWERED})",
        ),
    ),
    _of_controllers(
        "commands-wait-for-nobody",
        "commands are sent before the response to the previous one, and lost ones are not repeated",
        (
            f"{CONTROLLER}.command_connections:_Connection._attempt",
            "body = await self._frames.receive()",
            f"body = encode({ANSWERED})",
        ),
    ),
    _of_controllers(
        "events-of-a-kind-once",
        "an event that was handled counts as still queued, so later events of its kind are dropped",
        ("kraft_controller.core.event_queue:EventQueue.take", "self._noted.discard(queued.event)", "pass"),
    ),
    _of_controllers(
        "lists-not-watched",
        "the lists of brokers and topics are read without a watch",
        (
            f"{CONTROLLER}.store_session:StoreSession._send_one",
            "session.children(path, self._watch if watch else None)",
            "session.children(path)",
        ),
    ),
    _of_controllers(
        "fresh-broker-obeys",
        "a broker without a broker epoch executes commands for its former process",
        (
            "kraft_controller.core.broker_epoch:BrokerEpochFence.accepts_from",
            "self._least if self.epoch == NO_EPOCH else self.epoch",
            "self.epoch",
        ),
    ),
    _of_controllers(
        "reign-at-any-version",
        "a controller that is deposed during an event continues to write",
        (
            f"{CONTROLLER}.controller:Controller._lead",
            "ZnodeStore(Fence(elected.version))",
            "ZnodeStore(Fence(type(elected.version)(-1)))",
        ),
    ),
    _of_drivers(
        "deposed-ends-sessions",
        "a deposed leader continues to expire sessions by its own clock",
        (f"{TRACKER}.rest", "self._expiry = None", "pass"),
    ),
    _of_drivers(
        "ended-by-the-last-leader",
        "a new leader carries out an expiry that its predecessor decided, though the client was active since",
        (
            "zab.store.request_preparer:RequestPreparer._close_session",
            "if fields and fields[0] != self._epoch:",
            "if False:",
        ),
    ),
    _of_drivers(
        "ends-what-it-slept-through",
        "a leader whose process was suspended expires sessions whose pings it missed meanwhile",
        (f"{TRACKER}.check", "if slept:", "if False:"),
    ),
    _of_drivers(
        "old-end-takes-the-new",
        "the late end of a connection also ends the session's next connection",
        (
            "zab.service.client_sessions:ClientSessions.detach",
            "if self.attached.get(client.session) is client:",
            "if client.session in self.attached:",
        ),
    ),
)
