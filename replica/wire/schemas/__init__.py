"""Requests and responses of Kafka's protocol: a class for each struct, under Kafka's names, and an `Api` for each pair.

`replica.wire.messages` encodes and decodes them.
"""

from __future__ import annotations

from typing import Any, Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api
from replica.wire.schemas import cluster, data, groups, moves, quotas, security, topics, transactions

APIS: Final[dict[ApiKey, Api[Any, Any]]] = {
    api.key: api
    for module in (data, cluster, groups, topics, moves, quotas, transactions, security)
    for api in module.APIS
}
