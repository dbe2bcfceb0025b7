"""`olp cert`: a household authority, and certificates that it vouches for."""

from __future__ import annotations

import ipaddress
import re
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from olp.errors import OLPError
from olp.host.authority import SERVER_DAYS, make
from olp.host.tls import identity
from tests.cli.conftest import Olp
from tests.cli.inside import inside

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def olp(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Olp:
    """The command line, in this process."""
    return inside(home, tmp_path / "bin", monkeypatch)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificates(path.read_bytes())[0]


def names(cert: x509.Certificate) -> set[str]:
    found = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in found}


def test_the_first_one_and_its_renewal(olp: Olp, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    first = olp("cert", "--out", str(folder), "--host", "Nas.Local", "--host", "10.0.0.9")
    assert first.code == 0, first.err
    assert f'tls_cert = "{folder / "server.pem"}"\ntls_key = "{folder / "server.key"}"' in first.out
    for system in ("macOS", "iOS", "Android", "Windows", "Debian", "Fedora", "Firefox"):
        assert re.search(rf"^{system}", first.out, re.M)
    authority = certificate(folder / "authority.pem")
    server = certificate(folder / "server.pem")
    server.verify_directly_issued_by(authority)
    here = {"nas.local", "10.0.0.9", "localhost", "127.0.0.1", "::1"}
    assert here < names(server), "and the host's own names"
    assert any(name.endswith(".local") and name != "nas.local" for name in names(server))
    again = olp("cert", "--out", str(folder))
    assert "The CA is unchanged" in again.out
    assert certificate(folder / "authority.pem") == authority
    renewed = certificate(folder / "server.pem")
    renewed.verify_directly_issued_by(authority)
    assert renewed.serial_number != server.serial_number
    assert identity(str(folder / "server.pem"), str(folder / "server.key")).expires_at > 0


def test_the_files_and_their_rights(olp: Olp, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    told = olp("cert", "--out", str(folder), "--json").json
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {
        "authority.key": 0o600,
        "server.key": 0o600,
        "authority.pem": 0o644,
        "server.pem": 0o644,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert set(told["names"]) == names(certificate(folder / "server.pem"))
    assert re.fullmatch(r"([0-9A-F]{2}:){31}[0-9A-F]{2}", told["fingerprint"])
    assert told["new_authority"] is True


def test_what_the_certificates_say(tmp_path: Path) -> None:
    made = make(tmp_path, ["nas"], ["192.168.1.5"], NOW)
    server, authority = certificate(made.cert), certificate(made.authority)
    basic = x509.BasicConstraints
    assert server.extensions.get_extension_for_class(basic).value.ca is False
    assert authority.extensions.get_extension_for_class(basic).value.ca is True
    usage = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [one.dotted_string for one in usage] == ["1.3.6.1.5.5.7.3.1"]
    assert server.not_valid_after_utc == made.expires == NOW + timedelta(days=SERVER_DAYS)
    assert server.not_valid_before_utc < NOW
    assert (authority.not_valid_after_utc - NOW).days == 3650
    assert SERVER_DAYS < 398, "what Apple's devices and browsers take"


def test_the_authority_can_vouch_for_the_household_alone(tmp_path: Path) -> None:
    made = make(tmp_path, ["nas"], [], NOW)
    limits = certificate(made.authority).extensions.get_extension_for_class(x509.NameConstraints)
    assert limits.critical
    nets = [s.value for s in limits.value.permitted_subtrees or () if isinstance(s, x509.IPAddress)]
    assert not any(ipaddress.ip_address("8.8.8.8") in net for net in nets)  # type: ignore[operator]
    with pytest.raises(OLPError, match=r"may not sign for bank\.example; --new-authority"):
        make(tmp_path, ["bank.example"], [], NOW)
    found = make(tmp_path, ["nas"], ["8.8.8.8", "other.local", "fd12::1"], NOW)
    assert (found.left_out, found.names) == (("8.8.8.8",), ("nas", "other.local", "fd12::1"))
    anew = make(tmp_path, ["bank.example"], [], NOW, anew=True)
    assert anew.new_authority and anew.fingerprint != made.fingerprint


def test_an_authority_that_is_about_to_end_is_replaced(tmp_path: Path) -> None:
    old = make(tmp_path, [], ["localhost"], NOW - timedelta(days=3650 - SERVER_DAYS + 1))
    new = make(tmp_path, [], ["localhost"], NOW)
    assert new.new_authority and new.fingerprint != old.fingerprint


def test_broken_files_are_not_replaced(olp: Olp, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    make(folder, [], ["localhost"], NOW)
    (folder / "authority.key").write_text("no key")
    ran = olp("cert", "--out", str(folder))
    assert ran.code == 2 and "are not an authority and its key" in ran.err
    assert (folder / "authority.key").read_text() == "no key"
    assert olp("cert", "--out", str(folder), "--new-authority").code == 0


@pytest.mark.parametrize("name", ["a b", "", "x/y", "*.local"])
def test_a_name_that_is_none(olp: Olp, tmp_path: Path, name: str) -> None:
    ran = olp("cert", "--out", str(tmp_path / "tls"), "--host", name)
    assert ran.code == 2 and "is no host name and no address" in ran.err


def test_openssl_agrees(tmp_path: Path) -> None:
    """What Python's own library says of the chain, the constraints included."""
    made = make(tmp_path, ["nas.local"], ["192.168.1.5"], NOW)
    context = ssl.create_default_context(cafile=str(made.authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.cert, made.key)
    for name in ("nas.local", "192.168.1.5"):
        a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (
            context.wrap_bio(a, b, server_hostname=name),
            server.wrap_bio(b, a, server_side=True),
        )
        for _ in range(4):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        assert ends[0].getpeercert()


def test_without_the_library_it_says_what_to_do(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from olp.cli.main import main\n"
        f"sys.argv = ['olp', 'cert', '--out', {str(tmp_path)!r}]\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    command = f"{sys.executable} -m pip install cryptography"
    assert done.stderr == f"olp: this needs the package cryptography: {command}\n"
