"""`zab-broker dump`: print the contents of files in a log directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import click
from attrs import asdict

from kraft_controller.wire.broker_identity import META
from replica.core.errors import KafkaError
from replica.storage import checkpoint_files
from replica.storage.producer_state import ProducerStateManager
from replica.storage.segment_indexes import OffsetIndex, TimeIndex
from replica.storage.transaction_index import decode
from replica.wire.batch import HEADER_BYTES, PREFIX, Header, check
from replica.wire.records import Record, read_control, read_records
from zab.cli.kit.failures import DONE, Failed, Misused
from zab.cli.kit.verb_group import Arguments

Row: TypeAlias = tuple[str, dict[str, object]]
"""A line of text, and the same data as fields of a JSON object."""
Reader: TypeAlias = Callable[[Path, Arguments], Iterator[Row]]
_SUFFIXES_OF_THE_MOMENT: Final = (".deleted", ".cleaned", ".swap", ".tmp")
_OFFSETS: Final = (
    checkpoint_files.HIGH_WATERMARKS,
    checkpoint_files.RECOVERY_POINTS,
    checkpoint_files.START_OFFSETS,
    checkpoint_files.CLEANED,
)


@click.command()
@click.argument("file", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--records", is_flag=True, help="Also print the records of each batch.")
@click.option(
    "--from",
    "first",
    metavar="OFFSET",
    type=click.IntRange(0),
    default=0,
    help="Omit batches, index entries and aborted transactions that end before this offset.",
)
@click.option("--json", is_flag=True, help="Print a JSON object for each line, for programs.")
@click.option("--count", metavar="N", type=click.IntRange(0), help="Print at most N batches of each segment.")
def dump(**values: object) -> int:
    """Print the contents of files in a log directory. Nothing is changed, and a broker may be running.

    FILE is a segment (.log), an index (.index, .timeindex), a list of aborted transactions (.txnindex), a producer
    snapshot (.snapshot), or one of the small text files: leader-epoch-checkpoint, offset checkpoints,
    partition.metadata, meta.properties, .kafka_cleanshutdown.

    The header and the checksum of each batch of a segment are verified, and the batch is printed on one line; --records
    adds its records. With --json each line is an object that also names its file. The command ends with status 1 at the
    first damage.
    """
    arguments = Arguments(**values)
    for path in arguments.file:
        if len(arguments.file) > 1 and not arguments.json:
            print(f"== {path}")
        if not path.is_file():
            raise Misused(f"{path} is not a file")
        show = _reader_of(path)
        if show is None:
            raise Misused(f"{path}: unknown type of file; --help lists the types of files in a log directory")
        try:
            for line, fields in show(path, arguments):
                print(json.dumps({"file": str(path), **fields}, ensure_ascii=False) if arguments.json else line)
        except (KafkaError, ValueError) as error:
            text = error.text if isinstance(error, KafkaError) else str(error)
            raise Failed(f"{path}: {text}") from error
    return DONE


def _reader_of(path: Path) -> Reader | None:
    name = path.name
    for suffix in _SUFFIXES_OF_THE_MOMENT:
        name = name.removesuffix(suffix)
    if name in _OFFSETS:
        return _offsets
    by_name = {
        checkpoint_files.EPOCHS: _epochs,
        checkpoint_files.METADATA: _metadata,
        META: _meta,
        checkpoint_files.CLEAN_SHUTDOWN: _clean,
    }
    by_suffix = {".log": _log, ".index": _index, ".timeindex": _times, ".txnindex": _aborted, ".snapshot": _snapshot}
    return by_name.get(name) or by_suffix.get(Path(name).suffix)


def _log(path: Path, arguments: Arguments) -> Iterator[Row]:
    position, shown, size = 0, 0, path.stat().st_size
    with path.open("rb") as file:
        while position < size and (arguments.count is None or shown < arguments.count):
            file.seek(position)
            head = file.read(HEADER_BYTES)
            length = PREFIX.unpack_from(head)[1] + PREFIX.size if len(head) == HEADER_BYTES else 0
            batch = head + file.read(length - HEADER_BYTES) if HEADER_BYTES < length <= size - position else head
            try:
                header = check(batch)
            except KafkaError as error:
                raise ValueError(f"byte {position} of {size}: {error.text}") from error
            if header.last_offset >= arguments.first:
                yield _batch_line(position, header), _batch_fields(position, header)
                shown += 1
                if arguments.records:
                    for record in read_records(batch):
                        yield f"  {_record_line(header, record)}", _record_fields(header, record)
            position += header.size


def _batch_line(position: int, header: Header) -> str:
    words = [
        f"offsets {header.base_offset}-{header.last_offset}",
        f"records {header.record_count}",
        f"epoch {header.leader_epoch}",
        f"position {position}",
        f"bytes {header.size}",
        f"time {_time(header.max_timestamp)}",
        header.codec.label,
    ]
    if header.log_append_time:
        words.append("log-append-time")
    if header.producer_id >= 0:
        words.append(
            f"producer {header.producer_id} epoch {header.producer_epoch} "
            f"sequences {header.base_sequence}-{header.last_sequence}"
        )
    if header.transactional:
        words.append("transactional")
    if header.control:
        words.append("control")
    if header.delete_horizon is not None:
        words.append(f"delete-horizon {_time(header.delete_horizon)}")
    return ", ".join(words)


def _batch_fields(position: int, header: Header) -> dict[str, object]:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "position": position,
        "bytes": header.size,
        "max_timestamp": header.max_timestamp,
        "log_append_time": header.log_append_time,
        "compression": header.codec.label,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence if header.producer_id >= 0 else -1,
        "transactional": header.transactional,
        "control": header.control,
        "delete_horizon": header.delete_horizon,
    }


def _record_fields(header: Header, record: Record) -> dict[str, object]:
    fields: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp}
    if header.control:
        kind, epoch = read_control(record)
        return {**fields, "control": None if kind is None else kind.name, "coordinator_epoch": epoch}
    headers = [[name, _text(value)] for name, value in record.headers]
    return {**fields, "key": _text(record.key), "value": _text(record.value), "headers": headers}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _record_line(header: Header, record: Record) -> str:
    if header.control:
        kind, epoch = read_control(record)
        name = kind.name if kind is not None else "?"
        return f"{record.offset} {_time(record.timestamp)} {name}, coordinator epoch {epoch}"
    headers = "".join(f" {name}={_shown(value)}" for name, value in record.headers)
    return f"{record.offset} {_time(record.timestamp)} {_shown(record.key)}: {_shown(record.value)}{headers}"


def _shown(data: bytes | None) -> str:
    """Return UTF-8 text in quotes, with escapes for unprintable characters, and other data in hexadecimal."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return repr(text)


def _time(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


def _base(path: Path) -> int:
    stem = path.name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0


def _index(path: Path, arguments: Arguments) -> Iterator[Row]:
    for offset, position in OffsetIndex(path.read_bytes()).entries:
        if _base(path) + offset >= arguments.first:
            yield (
                f"offset {_base(path) + offset}, position {position}",
                {
                    "offset": _base(path) + offset,
                    "position": position,
                },
            )


def _times(path: Path, arguments: Arguments) -> Iterator[Row]:
    for time, offset in TimeIndex(path.read_bytes()).entries:
        if _base(path) + offset >= arguments.first:
            yield (
                f"time {_time(time)} ({time}), offset {_base(path) + offset}",
                {
                    "timestamp": time,
                    "offset": _base(path) + offset,
                },
            )


def _aborted(path: Path, arguments: Arguments) -> Iterator[Row]:
    for each in decode(path.read_bytes()):
        if each.last_offset >= arguments.first:
            line = f"producer {each.producer_id}, offsets {each.first_offset}-{each.last_offset}"
            yield f"{line}, stable offset {each.stable_offset}", each._asdict()


def _snapshot(path: Path, arguments: Arguments) -> Iterator[Row]:
    for producer_id, known in sorted(ProducerStateManager.decode(path.read_bytes()).entries().items()):
        batches = "; ".join(
            f"{each.first_sequence}-{each.last_sequence} at {each.first_offset}-{each.last_offset}"
            for each in known.batches
        )
        open_from = f", transaction open from {known.txn_start}" if known.txn_start >= 0 else ""
        about = f"producer {producer_id}, epoch {known.epoch}, last write {_time(known.timestamp)}"
        yield (
            f"{about}, sequences {batches}{open_from}",
            {
                "producer_id": producer_id,
                "producer_epoch": known.epoch,
                "timestamp": known.timestamp,
                "batches": [asdict(each) for each in known.batches],
                "transaction_start": known.txn_start,
                "coordinator_epoch": known.coordinator_epoch,
            },
        )


def _offsets(path: Path, arguments: Arguments) -> Iterator[Row]:
    for topic, partition, offset in checkpoint_files.decode(path.read_bytes(), path.name, 3):
        fields: dict[str, object] = {"topic": topic, "partition": int(partition), "offset": int(offset)}
        yield f"{topic}-{partition} {offset}", fields


def _epochs(path: Path, arguments: Arguments) -> Iterator[Row]:
    for epoch, start in checkpoint_files.decode_epochs(path.read_bytes(), path.name):
        yield f"epoch {epoch} from offset {start}", {"leader_epoch": epoch, "start_offset": start}


def _metadata(path: Path, arguments: Arguments) -> Iterator[Row]:
    checkpoint_files.decode_metadata(path.read_bytes())
    for line in path.read_text().splitlines():
        key, _, value = line.partition(": ")
        yield line, {key: value}


def _meta(path: Path, arguments: Arguments) -> Iterator[Row]:
    for key, value in checkpoint_files.decode_properties(path.read_bytes()).items():
        yield f"{key}={value}", {key: value}


def _clean(path: Path, arguments: Arguments) -> Iterator[Row]:
    epoch = checkpoint_files.decode_clean(path.read_bytes())
    yield f"clean shutdown of the broker with broker epoch {epoch}", {"broker_epoch": epoch}
