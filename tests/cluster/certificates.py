"""Throw-away keys and certificates for a control plane on loopback."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the PEM files that the components are started with."""

    authority: Path
    server: Path
    server_key: Path
    service_account_key: Path
    service_account_public_key: Path


def write_certificates(directory: Path) -> Certificates:
    """Make an authority, a server certificate for loopback, and the keys that sign service account tokens."""
    directory.mkdir(parents=True, exist_ok=True)
    authority_key, server_key, account_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dra-spawner-tests")])
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        _builder(authority_name, server_name, server_key.public_key(), authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    public_key = account_key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Certificates(
        authority=_write(directory / "ca.crt", authority.public_bytes(pem)),
        server=_write(directory / "apiserver.crt", server.public_bytes(pem)),
        server_key=_write(directory / "apiserver.key", _private(server_key)),
        service_account_key=_write(directory / "sa.key", _private(account_key)),
        service_account_public_key=_write(directory / "sa.pub", public_key),
    )


def _builder(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
        # Python 3.13 refuses certificates without these two.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path
