"""A session with a root requests paths below it, and never sees the root."""

from __future__ import annotations

from typing import Any

import pytest

from zab.client.chroot import fields_below, path_below, path_out_of, value_out_of
from zab.store.operations import Op
from zab.store.znode import Stat

STAT = Stat(*range(11))


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/app", "/app/app"])
def test_there_and_back(path: str) -> None:
    below = path_below("/app", path)
    assert below.startswith("/app")
    assert path_out_of("/app", below) == path


def test_chroot_maps_paths_below_it_only() -> None:
    assert path_below("/app", "/") == "/app"
    assert path_out_of("/app", "/apple") == "/apple"
    assert path_out_of("/app", "/zookeeper/config") == "/zookeeper/config"


@pytest.mark.parametrize(
    ("op", "fields", "below"),
    [
        (Op.CREATE, ("/a", b"", (), 0), ("/app/a", b"", (), 0)),
        (Op.CREATE, ("/", b"", (), 0), ("/app", b"", (), 0)),
        (Op.CREATE2, ("/", b"", (), 3), ("/app/", b"", (), 3)),
        (Op.CREATE_TTL, ("/", b"", (), 6, 5), ("/app/", b"", (), 6, 5)),
        (Op.GET_DATA, ("/", True), ("/app", True)),
        (Op.GET_EPHEMERALS, ("/",), ("/app/",)),
        (Op.GET_EPHEMERALS, ("/a",), ("/app/a",)),
        (Op.RECONFIG, ("server.1=x", None, None, -1), ("server.1=x", None, None, -1)),
        (Op.WHO_AM_I, (), ()),
        (
            Op.MULTI,
            ((Op.DELETE, ("/a", 1)), (Op.CHECK, ("/", 2))),
            ((Op.DELETE, ("/app/a", 1)), (Op.CHECK, ("/app", 2))),
        ),
        (Op.MULTI_READ, ((Op.GET_DATA, ("/a", False)),), ((Op.GET_DATA, ("/app/a", False)),)),
    ],
)
def test_requests(op: Op, fields: Any, below: Any) -> None:
    assert fields_below("/app", op, fields) == below


@pytest.mark.parametrize(
    ("op", "value", "shown"),
    [
        (Op.CREATE, "/app/a", "/a"),
        (Op.CREATE2, ("/app/a", STAT), ("/a", STAT)),
        (Op.CREATE_TTL, ("/app", STAT), ("/", STAT)),
        (Op.SYNC, "/app", "/"),
        (Op.GET_EPHEMERALS, ["/app/a", "/app/a/b"], ["/a", "/a/b"]),
        (Op.GET_CHILDREN, ["/app"], ["/app"]),
        (Op.MULTI, [(Op.CREATE, "/app/a"), (Op.SET_DATA, STAT), (Op.DELETE, None), (Op.ERROR, -101)],
         [(Op.CREATE, "/a"), (Op.SET_DATA, STAT), (Op.DELETE, None), (Op.ERROR, -101)]),
    ],
)  # fmt: skip
def test_replies(op: Op, value: Any, shown: Any) -> None:
    assert value_out_of("/app", op, value) == shown
