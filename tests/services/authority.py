"""A certificate authority of the tests' own, and servers that it vouches for."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; `file` is its own, in PEM."""

    def __init__(self, directory: Path, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = (
            self._about(self._name, self._key.public_key()).add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def vouch(self, *names: str) -> tuple[bytes, bytes]:
        """A certificate for a server of these names, and its key, both in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        found = [_general(name) for name in names]
        about = self._about(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]), key.public_key())
        signed = about.add_extension(x509.SubjectAlternativeName(found), critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return signed.public_bytes(serialization.Encoding.PEM), private

    def _about(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
