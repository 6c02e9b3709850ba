"""What replicas tell each other: nobody else can say it, nor use it again."""

from __future__ import annotations

import hashlib

import pytest

from dra_spawner.service.http.replica_signature import ReplicaSignatures

BODY = b'{"shape": "0123456789abcdef", "pod": "jupyter-ada", "namespace": "hub"}'
PATH = "/services/dra-spawner/api/placements"
TOKEN = "0123456789abcdef" * 2
HERE = "10.1.2.3:8181"


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_question_is_accepted_once(clock: Clock) -> None:
    standby, leader = ReplicaSignatures(TOKEN, now=clock), ReplicaSignatures(TOKEN, now=clock)
    signed = standby.sign_question("POST", HERE, PATH, BODY)
    assert TOKEN not in signed
    assert leader.accept_question(signed, "POST", HERE, PATH)
    assert not leader.accept_question(signed, "POST", HERE, PATH)
    # The same question, asked again, is another one.
    assert leader.accept_question(standby.sign_question("POST", HERE, PATH, BODY), "POST", HERE, PATH)


@pytest.mark.parametrize(
    ("seconds", "accepted"),
    [(-16, False), (-14, True), (14, True), (16, False), (3600, False)],
    ids=lambda value: str(value),
)
def test_a_question_is_good_for_a_short_time(clock: Clock, seconds: float, accepted: bool) -> None:
    signed = ReplicaSignatures(TOKEN, now=clock).sign_question("POST", HERE, PATH, BODY)
    clock.seconds += seconds
    assert ReplicaSignatures(TOKEN, now=clock).accept_question(signed, "POST", HERE, PATH) is accepted


@pytest.mark.parametrize("ahead", [0, 14], ids=["same clock", "clock ahead"])
def test_there_is_no_moment_when_a_question_can_be_used_again(clock: Clock, ahead: float) -> None:
    leader = ReplicaSignatures(TOKEN, now=clock)
    clock.seconds += ahead
    signed = ReplicaSignatures(TOKEN, now=clock).sign_question("POST", HERE, PATH, BODY)
    clock.seconds -= ahead
    assert leader.accept_question(signed, "POST", HERE, PATH)
    for _ in range(60):
        clock.seconds += 1
        assert not leader.accept_question(signed, "POST", HERE, PATH)
        leader.accept_question(leader.sign_question("POST", HERE, PATH, BODY), "POST", HERE, PATH)


@pytest.mark.parametrize(
    ("method", "authority", "path"),
    [
        pytest.param("GET", HERE, PATH, id="another-method"),
        pytest.param("POST", "10.1.2.4:8181", PATH, id="another-host"),
        pytest.param("POST", "10.1.2.3:8182", PATH, id="another-port"),
        pytest.param("POST", "", PATH, id="no-host"),
        pytest.param("POST", HERE, "/services/dra-spawner/api/nodes", id="another-path"),
        pytest.param("POST", HERE, f"{PATH}?x=1", id="a-query"),
    ],
)
def test_a_signature_is_good_for_one_question_only(method: str, authority: str, path: str) -> None:
    signed = ReplicaSignatures(TOKEN).sign_question("POST", HERE, PATH, BODY)
    assert not ReplicaSignatures(TOKEN).accept_question(signed, method, authority, path)


def test_a_question_is_good_with_its_body_only() -> None:
    signed = ReplicaSignatures(TOKEN).sign_question("POST", HERE, PATH, BODY)
    assert ReplicaSignatures.is_body(signed, BODY)
    assert not ReplicaSignatures.is_body(signed, BODY.replace(b"ada", b"eve"))
    assert not ReplicaSignatures.is_body(signed, b"")


def test_who_is_known_by_no_address_answers_nobody() -> None:
    signed = ReplicaSignatures(TOKEN).sign_question("POST", "", PATH, BODY)
    assert not ReplicaSignatures(TOKEN).accept_question(signed, "POST", "", PATH)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda moment, nonce, body, mac: f"{int(moment) + 1}.{nonce}.{body}.{mac}", id="later"),
        pytest.param(lambda moment, nonce, body, mac: f"{moment}.{'0' * 32}.{body}.{mac}", id="another-number"),
        pytest.param(lambda moment, nonce, body, mac: f"{moment}.{nonce}.{'0' * 64}.{mac}", id="another-body"),
        pytest.param(lambda moment, nonce, body, mac: f"{moment}.{nonce}.{body}.{'0' * 64}", id="another-signature"),
        pytest.param(lambda moment, nonce, body, mac: f"{moment}.{nonce}.{body}.", id="no-signature"),
        pytest.param(lambda moment, nonce, body, mac: mac, id="the-signature-alone"),
        pytest.param(lambda moment, nonce, body, mac: "", id="nothing"),
        pytest.param(lambda moment, nonce, body, mac: f"{moment}.{nonce}.{body}.{mac[:-1]}é", id="no-ascii"),
    ],
)
def test_what_is_forged_is_refused(change: object) -> None:
    signed = ReplicaSignatures(TOKEN).sign_question("POST", HERE, PATH, BODY)
    assert callable(change)
    forged = change(*signed.split("."))
    assert not ReplicaSignatures(TOKEN).accept_question(forged, "POST", HERE, PATH)


def test_another_token_signs_nothing_that_counts() -> None:
    other = ReplicaSignatures("another")
    assert not ReplicaSignatures(TOKEN).accept_question(
        other.sign_question("POST", HERE, PATH, BODY), "POST", HERE, PATH
    )


def test_without_a_token_nothing_is_signed_and_nothing_is_good() -> None:
    nobody = ReplicaSignatures("")
    with pytest.raises(ValueError, match="without a token"):
        nobody.sign_question("POST", HERE, PATH, BODY)
    # Whoever else has no token could say so, too.
    signature = nobody.sign_answer("1.2.3", 200, BODY)
    assert not nobody.is_answer(signature, "1.2.3", 200, BODY)
    moment, nonce = "1800000000", "0" * 32
    digest = hashlib.sha256(BODY).hexdigest()
    forged = f"{moment}.{nonce}.{digest}.{nobody._question(moment, nonce, 'POST', HERE, PATH, digest)}"
    assert not ReplicaSignatures("", now=lambda: 1_800_000_000.0).accept_question(forged, "POST", HERE, PATH)


def test_an_answer_is_good_for_its_question_only() -> None:
    leader, standby = ReplicaSignatures(TOKEN), ReplicaSignatures(TOKEN)
    question, other = (standby.sign_question("POST", HERE, PATH, BODY) for _ in range(2))
    signature = leader.sign_answer(question, 200, b"{}")
    assert standby.is_answer(signature, question, 200, b"{}")
    assert not standby.is_answer(signature, other, 200, b"{}")
    assert not standby.is_answer(signature, question, 503, b"{}")
    assert not standby.is_answer(signature, question, 200, b'{"kind": "never"}')
    # What a replica says as a question is no answer, and the other way round.
    assert not standby.is_answer(question.rpartition(".")[2], question, 200, BODY)
    assert not standby.is_answer("", question, 200, b"{}")
