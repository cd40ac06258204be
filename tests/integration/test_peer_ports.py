"""The ports between servers against servers that should not be there, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from attrs import evolve

import zab
from tests.integration.stores import DOORS, Stores
from zab.store.acl import digest_id

ROOT = b"super:secret"


@pytest.mark.parametrize("agreed", [False, True])
async def test_a_super_user_of_one_server_is_one_where_all_have_it(tmp_path: Path, agreed: bool) -> None:
    """The follower proves its client's identity; the leader decides whether a super user exists."""
    with_root = evolve(DOORS, super_digest=digest_id(ROOT))
    async with trio.open_nursery() as nursery:
        running = Stores(nursery, tmp_path, 3, {})
        for sid in running.ports:
            await running.start(sid, doors=with_root if agreed or sid == 1 else DOORS)
        assert await running.leader() != 1
        async with running.servers[2].session() as owner, running.servers[1].session() as root:
            await owner.add_auth("digest", b"joe:joe")
            await owner.create("/mine", b"1", acl=zab.CREATOR_ACL)
            await root.sync("/mine")
            await root.add_auth("digest", ROOT)
            if agreed:
                await root.set("/mine", b"2")
            else:
                with pytest.raises(zab.NoAuth):
                    await root.set("/mine", b"2")
        nursery.cancel_scope.cancel()
