"""`DescribeUserScramCredentials` and `AlterUserScramCredentials`: the SCRAM credentials of users."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kraft_controller.core.configuration.scram import ITERATIONS_MAX, ITERATIONS_MIN, Credential, Mechanism, of_salted
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.authentication.user_credentials import Credentials, UserCredentials
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.security_schemas import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

NUMBERS: Final = {1: Mechanism.SHA_256, 2: Mechanism.SHA_512}
_NUMBER_OF: Final = {mechanism: number for number, mechanism in NUMBERS.items()}


def handlers(users: UserCredentials) -> Handlers:
    async def describe(request: Request[DescribeUserScramCredentialsRequest]) -> DescribeUserScramCredentialsResponse:
        requested = request.body.users
        names = [each.name for each in requested] if requested else None
        try:
            found = await users.described(None if names is None else [name for name in dict.fromkeys(names) if name])
        except KafkaError as error:
            return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.text)
        repeated = {name for name, count in Counter(names or ()).items() if count > 1}
        wanted = sorted(found) if names is None else list(dict.fromkeys(names))
        return DescribeUserScramCredentialsResponse(
            results=[_described(name, found.get(name), name in repeated) for name in wanted]
        )

    async def alter(request: Request[AlterUserScramCredentialsRequest]) -> AlterUserScramCredentialsResponse:
        body = request.body
        changes: dict[str, tuple[list[ScramCredentialDeletion], list[ScramCredentialUpsertion]]] = {}
        for deletion in body.deletions:
            changes.setdefault(deletion.name, ([], []))[0].append(deletion)
        for upsertion in body.upsertions:
            changes.setdefault(upsertion.name, ([], []))[1].append(upsertion)
        results = []
        for name, (deletions, upsertions) in changes.items():
            error = KafkaError(ErrorCode.NONE)
            try:
                put, remove = _checked_changes(name, deletions, upsertions)
                await users.change(name, put, remove)
            except KafkaError as raised:
                error = raised
            results.append(
                AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.text or None)
            )
        return AlterUserScramCredentialsResponse(results=results)

    return handler_table(
        handles(DESCRIBE_USER_SCRAM_CREDENTIALS, describe), handles(ALTER_USER_SCRAM_CREDENTIALS, alter)
    )


def _described(name: str, credentials: Credentials | None, repeated: bool) -> DescribeUserScramCredentialsResult:
    if repeated:
        text = f"user {name} is in the request more than once"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text
        )
    if credentials is None:
        text = f"user {name} has no SCRAM credential"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text
        )
    infos = [
        CredentialInfo(mechanism=_NUMBER_OF[mechanism], iterations=each.iterations)
        for mechanism, each in credentials.items()
    ]
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)


def _checked_changes(
    name: str, deletions: list[ScramCredentialDeletion], upsertions: list[ScramCredentialUpsertion]
) -> tuple[dict[Mechanism, Credential], list[Mechanism]]:
    """Return the credentials to set and the mechanisms to delete. Raise if any change of the user is invalid."""
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the user name is empty")
    named = [*map(_mechanism, deletions), *map(_mechanism, upsertions)]
    if len(set(named)) < len(named):
        text = f"the request changes a credential of user {name} twice"
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
    put = {_mechanism(each): _credential(each) for each in upsertions}
    return put, [_mechanism(each) for each in deletions]


def _mechanism(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> Mechanism:
    found = NUMBERS.get(change.mechanism)
    if found is None:
        text = f"unknown mechanism {change.mechanism}: use 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)"
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
    return found


def _credential(upsertion: ScramCredentialUpsertion) -> Credential:
    """Derive the credential from the salted password, which clients send instead of the password."""
    iterations = upsertion.iterations
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        text = f"{iterations} iterations are not allowed: use {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    salt, salted = bytes(upsertion.salt), bytes(upsertion.salted_password)
    if not salt or not salted:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salt or the salted password is empty")
    return of_salted(_mechanism(upsertion), salted, salt, iterations)
