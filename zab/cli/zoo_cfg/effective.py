"""The settings in force, in the form of the configuration file."""

from __future__ import annotations

from collections.abc import Iterator

from zab.cli.zoo_cfg.keys import SECTIONS
from zab.cli.zoo_cfg.plan import ServerPlan
from zab.config.values import kibibytes
from zab.core.secrets import shown


def effective(plan: ServerPlan) -> str:
    """Return the settings in force as the text of a configuration file. Secrets in it are masked."""
    return "".join(f"{line}\n" for line in _lines(plan))


def _lines(plan: ServerPlan) -> Iterator[str]:
    """Yield each line: directories, addresses, `plan.given`, the keys that set a setting, the membership.

    A key that sets a setting is shown with the value in force, whether the file or a default set it. A key without a
    value is left out, and so is the version of the membership.
    """
    yield f"# {plan.path}: server {plan.server_id}" + (" alone" if plan.ensemble is None else "")
    yield f"dataDir={plan.data}"
    yield f"dataLogDir={plan.log or plan.data}"
    if plan.client_port is not None:
        yield f"clientPort={plan.client_port}"
        if plan.client_host is not None:
            yield f"clientPortAddress={plan.client_host}"
    for name, said in plan.given:
        yield f"{name}={said}"
    yield f"quorumListenOnAllIPs={_shown(plan.listen_host is not None)}"
    groups = {
        "settings": plan.settings,
        "limits": plan.limits,
        "storage": plan.storage,
        "store": plan.store,
        "access": plan.store.access,
        "client_ports": plan.client_ports,
        "throttle": plan.client_ports.throttle,
        "logins": plan.client_ports.failed_logins,
        "admin": plan.admin,
        "metrics": plan.metrics,
    }
    yield f"admin.enableServer={_shown(plan.admin is not None)}"
    for _, keys in SECTIONS:
        for key in keys:
            if key.sets:
                group, _, field = key.sets.partition(".")
                value = _value(plan, field, getattr(groups[group], field, None))
                if isinstance(value, int) and key.convert is kibibytes:
                    value //= 1024
                if value is not None:
                    yield f"{key.name}={shown(key.name, _shown(value))}"
    if plan.ensemble is not None:
        for line in plan.ensemble.text().splitlines():
            if not line.startswith("version="):
                yield line


def _value(plan: ServerPlan, field: str, value: object) -> object:
    if field == "session_ms_min":
        return plan.client_ports.timeout_ms(0)
    if field == "session_ms_max":
        return plan.client_ports.timeout_ms((1 << 31) - 1)
    return value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value)
