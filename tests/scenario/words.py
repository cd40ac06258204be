"""The words of the stories: one short clause for each event."""

from __future__ import annotations

from collections.abc import Callable

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.messages import (
    RESUMES,
    Ack,
    AckEpoch,
    AckNewLeader,
    BarrierReply,
    BarrierRequest,
    Commit,
    CommitAndActivate,
    Diff,
    FollowerInfo,
    Inform,
    InformAndActivate,
    LeaderInfo,
    Message,
    NewLeader,
    Notification,
    Ping,
    Pong,
    Propose,
    SnapBegin,
    SnapChunk,
    SnapEnd,
    SnapHeld,
    SnapResume,
    State,
    Trunc,
    UpToDate,
)
from zab.core.ready import Note, SaveEpochs
from zab.core.zxid import Zxid, show


def span(first: Zxid, last: Zxid) -> str:
    return show(first) if first == last else f"{show(first)}-{show(last)}"


def of_batch(batch: Batch) -> str:
    kind = "membership " if batch.config else ""
    return kind + span(batch.first, batch.last)


def members(ensemble: Ensemble) -> str:
    """Format members as `1 2 3 observer 4`: the voters, then the observers."""
    words = [str(sid) for sid in ensemble.voters]
    if ensemble.observers:
        words += ["observer", *(str(sid) for sid in ensemble.observers)]
    if ensemble.groups:
        words += ["groups", *(":".join(str(sid) for sid in group.members) for group in ensemble.groups)]
    if ensemble.weights:
        words += ["weights", *(f"{sid}={weight}" for sid, weight in sorted(ensemble.weights.items()))]
    return " ".join(words)


def of_epochs(write: SaveEpochs, before: SaveEpochs | None) -> str:
    """Format the changes of the epochs record."""
    words = []
    if before is None or before.accepted != write.accepted:
        words.append(f"promise {write.accepted}")
    if before is None or before.current != write.current:
        words.append(f"epoch {write.current}")
    if before is None or before.ensemble.version != write.ensemble.version:
        words.append(f"membership {show(write.ensemble.version)}")
    if before is not None and before.whole != write.whole:
        words.append("that it is whole" if write.whole else "that it is damaged")
    if before is not None and before.forgotten != write.forgotten:
        words.append("that it forgot" if write.forgotten else "that it is readmitted")
    return " and ".join(words) or "the same epochs"


def _of_notification(message: Notification) -> str:
    known = f" knowing {show(message.ensemble.version)}" if message.ensemble.version & 0xFFFFFFFF else ""
    if message.state is not State.LOOKING:
        return f"{message.state.name.lower()} {message.leader} e{message.epoch} r{message.round}{known}"
    if message.leader < 0:
        return f"asks r{message.round}{known}"
    return f"votes {message.leader}@{show(message.zxid)} e{message.epoch} r{message.round}{known}"


def _of_ack_epoch(message: AckEpoch) -> str:
    words = f"AckEpoch e{message.current_epoch} {show(message.last)}"
    if not message.counts:
        words += " uncounted"
    return words + (" forgotten" if message.forgotten else "")


_WORDS: dict[type, Callable[..., str]] = {
    Notification: _of_notification,
    FollowerInfo: lambda m: f"{'ObserverInfo' if m.observer else 'FollowerInfo'} {m.accepted_epoch}",
    AckEpoch: _of_ack_epoch,
    AckNewLeader: lambda m: f"AckNewLeader {m.epoch}",
    Ack: lambda m: f"Ack {show(m.zxid)}",
    Pong: lambda m: f"Pong {m.number}",
    BarrierRequest: lambda m: f"BarrierRequest {m.number}",
    LeaderInfo: lambda m: f"LeaderInfo {m.epoch}",
    Diff: lambda m: f"Diff {show(m.common)}",
    Trunc: lambda m: f"Trunc {show(m.common)}",
    SnapBegin: lambda m: f"SnapBegin {show(m.zxid)}",
    SnapChunk: lambda m: "SnapChunk",
    SnapEnd: lambda m: "SnapEnd",
    NewLeader: lambda m: f"NewLeader {m.epoch}",
    UpToDate: lambda m: f"UpToDate {show(m.committed)}",
    Propose: lambda m: f"Propose {of_batch(m.batch)}",
    Commit: lambda m: f"Commit {show(m.zxid)}",
    CommitAndActivate: lambda m: f"CommitAndActivate {show(m.zxid)} under {m.designated}",
    Inform: lambda m: f"Inform {of_batch(m.batch)}",
    InformAndActivate: lambda m: f"InformAndActivate {of_batch(m.batch)} under {m.designated}",
    Ping: lambda m: f"Ping {m.number}",
    BarrierReply: lambda m: "Resumes" if m == RESUMES else f"BarrierReply {m.number} {show(m.zxid)}",
    SnapHeld: lambda m: f"SnapHeld {show(m.zxid)} {m.size}",
    SnapResume: lambda m: f"SnapResume {show(m.zxid)} {m.size}",
}


def of_message(message: Message) -> str:
    return _WORDS[type(message)](message)


_NOTES: dict[str, str] = {
    "looking": "looks, round {round}",
    "elected": "elects {leader}",
    "role_over": "gives up: {why}",
    "up_to_date": "joins epoch {epoch} of {leader}",
    "synchronize": "syncs {peer} by {form} from {common}",
    "diverged": "finds that {peer} differs at {at}",
    "asks_to_truncate": "warns that it cuts {count} of {peer}, from {from} to {to}",
    "truncated": "warns that it loses {count}, from {from} to {to}",
    "learner_dropped": "drops {peer}: {why}",
    "history_given_up": "gives its {count} transactions behind {common} up for those of {leader}",
    "membership_dropped": "warns that it takes the members of {taken} in place of {version}",
    "vetoed": "warns that {peer} vetoes: {committed} was committed there",
    "vetoes": "warns that it vetoes {leader}: {count} would go behind {common}, and {committed} was committed",
    "history_distrusted": "distrusts its history: {why}",
    "protocol_error": "is offended by {message} of {source}: {error}",
    "ignored": "ignores {message} of {source}",
    "snapshot_resumed": "resumes the snapshot {zxid} at {resumes_at} of {of} bytes",
    "snapshot_received": "has received the snapshot {zxid}",
    "readmitting": "readmits {peers}",
    "readmitted": "is readmitted by {version}",
    "damage": "is damaged: {what}",
}


def of_note(note: Note) -> str:
    fields = dict(note.fields)
    if note.event in _NOTES:
        return _NOTES[note.event].format(**fields)
    return f"{note.event} " + " ".join(f"{key}={value}" for key, value in fields.items())
