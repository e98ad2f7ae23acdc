"""How an etcd is reached: its address, its users, and TLS."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from duly import config
from duly.adapters.etcd.address import Address, parse_address
from duly.adapters.etcd.client import Etcd as Client
from duly.adapters.system.clock import SystemClock
from duly.compose.presence import presence_of
from duly.domain.errors import Invalid, Unavailable
from duly.services.etcd import Etcd


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("etcd://10.0.0.1", Address((("10.0.0.1", 2379),), None, None)),
        ("etcd://a:1,b:2,[::1]:3/prod", Address((("a", 1), ("b", 2), ("::1", 3)), None, None, "prod")),
        ("etcds://ann:p%40ss@a:1,b", Address((("a", 1), ("b", 2379)), "ann", "p@ss", is_secure=True)),
    ],
)
def test_an_address_names_members_a_user_and_a_prefix(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["etcd:///x", "etcd://a:b:c", "etcd://a:99999", "etcd://ann@a", "http://a", "etcd://a,,b", "etcd://a?x=1"])
def test_what_is_no_address_is_told_without_repeating_it(text: str) -> None:
    with pytest.raises(Invalid, match="DULY_LEASES") as caught:
        parse_address(text)

    assert text not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    settings = config.load({"DULY_LEASES": "etcd://ann:hush-hush@a:1"})

    assert "hush-hush" not in repr(settings) + repr(parse_address(settings.leases))
    assert "hush-hush" not in settings.veil.over("the word is hush-hush")


async def test_a_user_and_a_password_are_needed_where_etcd_asks_for_them(own_etcd: Etcd) -> None:
    open_door = Client(parse_address(own_etcd.url))
    for path, body in (
        ("/v3/auth/user/add", {"name": "root", "password": "secret"}),
        ("/v3/auth/role/add", {"name": "root"}),
        ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
        ("/v3/auth/enable", {}),
    ):
        await open_door._call(path, body)
    known = Client(parse_address(own_etcd.url.replace("//", "//root:secret@")))

    await known.put("k", "v", await known.grant(5))
    keys, revision = await known.keys("k")
    watch = known.watch("k", revision)

    assert keys == ["k"]
    assert [await anext(watch), [change.key for change in await anext(watch)]] == [[], ["k"]]
    await watch.aclose()
    with pytest.raises(Unavailable, match="refuses"):
        await open_door.keys("k")
    with pytest.raises(Unavailable, match="does not let us in"):
        await Client(parse_address(own_etcd.url.replace("//", "//root:wrong@"))).keys("k")


async def test_a_token_that_is_no_longer_known_is_asked_for_again(own_etcd: Etcd) -> None:
    client = Client(parse_address(own_etcd.url))
    for path, body in (
        ("/v3/auth/user/add", {"name": "root", "password": "secret"}),
        ("/v3/auth/role/add", {"name": "root"}),
        ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
        ("/v3/auth/enable", {}),
    ):
        await client._call(path, body)
    known = Client(parse_address(own_etcd.url.replace("//", "//root:secret@")))
    await known.keys("k")
    own_etcd.stop()
    own_etcd.start()

    assert (await known.keys("k"))[0] == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    directory: Path = tmp_path_factory.mktemp("tls")
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "etcd")])
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key(), serial_number=x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (directory / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    return str(directory / "cert.pem"), str(directory / "key.pem")


@pytest.fixture
def secure_etcd(certificate: tuple[str, str], own_etcd: Etcd) -> Iterator[Etcd]:
    """It speaks TLS, and only with whoever has a certificate."""
    cert, key = certificate
    words = ["--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert]
    with Etcd(words, scheme="https") as server:
        yield server


async def test_tls_is_spoken_both_ways(secure_etcd: Etcd, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    settings = {"DULY_LEASES": secure_etcd.url, "DULY_ETCD_CA": cert, "DULY_ETCD_CERT": cert, "DULY_ETCD_KEY": key}

    known = await presence_of(config.load(settings), SystemClock()).look()
    stranger = await presence_of(config.load({**settings, "DULY_ETCD_CERT": "", "DULY_ETCD_KEY": ""}), SystemClock()).look()
    unbelieved = await presence_of(config.load({"DULY_LEASES": secure_etcd.url}), SystemClock()).look()

    assert (known.is_reachable, stranger.is_reachable, unbelieved.is_reachable) == (True, False, False)
    assert "CERTIFICATE_VERIFY_FAILED" in (unbelieved.trouble or "")


def test_a_certificate_that_cannot_be_read_is_told_by_name() -> None:
    settings = config.load({"DULY_LEASES": "etcds://a", "DULY_ETCD_CA": "/nowhere/ca.pem"})

    with pytest.raises(Invalid, match=r"/nowhere/ca\.pem"):
        presence_of(settings, SystemClock())


def test_leases_are_the_store_s_unless_an_etcd_is_named() -> None:
    assert config.load({}).leases == config.load({"DULY_LEASES": ""}).leases == "store"
    with pytest.raises(Invalid, match="DULY_LEASES"):
        config.load({"DULY_LEASES": "redis://a"})
