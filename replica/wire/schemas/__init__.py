"""What each request and each reply consists of: a table for each API. `replica.wire.messages` makes code of them."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api
from replica.wire.schemas import cluster, data, groups, moves, quotas, security, topics, transactions

APIS: Final[dict[ApiKey, Api]] = {
    api.key: api
    for module in (data, cluster, groups, topics, moves, quotas, transactions, security)
    for api in module.APIS
}
