from __future__ import annotations

from ipaddress import ip_address

import pytest

from duly.executors.addresses import check_addresses, check_url, is_global, parse_allow
from duly.ports.endings import Failure

# What can be known without asking DNS. Every one over https and with http allowed, so the scheme is not what refuses it.
REFUSED = [
    # loopback and this host, in every spelling
    "https://127.0.0.1/", "https://127.0.0.1:443/", "https://127.255.255.254/", "https://0.0.0.0/", "https://0.1.2.3/", "https://127.1/",
    "https://127.0.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0x7f.1/", "https://017700000001/",
    "https://0177.0.0.1/", "https://127.0.0.01/", "https://127.0.0.1./", "https://127.000.000.001/", "https://0/", "https://0x/",
    "https://1.2.3.4.5/", "https://256.1.1.1/", "https://8.8.8/", "https://8.8.2056/", "https://127.0.0.0x1/", "https://4294967297/",
    "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://www.localhost/", "https://localhost.localdomain.local/",
    "https://１２７.0.0.1/", "https://127。0。0。1/", "https://①②⑦.0.0.1/", "https://ⓛocalhost/", "https://localhosⓣ/",
    # private, shared, reserved
    "https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/", "https://100.64.0.1/",
    "https://100.100.100.200/latest/meta-data/", "https://169.254.169.254/latest/meta-data/", "https://169.254.170.2/v2/credentials",
    "https://168.63.129.16/machine", "https://192.0.0.192/opc/v2/", "https://192.0.2.1/", "https://198.18.0.1/", "https://198.51.100.7/",
    "https://203.0.113.9/", "https://192.88.99.1/", "https://224.0.0.1/", "https://239.255.255.250/", "https://240.0.0.1/",
    "https://255.255.255.255/",
    # IPv6
    "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::ffff:8.8.8.8]/",
    "https://[::127.0.0.1]/", "https://[0:0:0:0:0:0:0:1]/", "https://[64:ff9b::7f00:1]/", "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b:1::1]/", "https://[2002:7f00:1::]/", "https://[2002:a9fe:a9fe::1]/", "https://[2001::1]/",
    "https://[2001:0:7f00:1::]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/latest/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/", "https://[fec0::1]/", "https://[ff02::1]/", "https://[100::1]/", "https://[2001:db8::1]/",
    "https://[3fff::1]/", "https://[5f00::1]/", "https://[2001:2::1]/", "https://[2001:20::1]/", "https://[::ffff:0:127.0.0.1]/",
    "https://[127.0.0.1]/", "https://[::1", "https://::1/", "https://[::1]evil.example/", "https://[v1.x]/", "https://[]/",
    # names that are local by definition or by habit
    "https://metadata.google.internal/", "https://metadata/", "https://router/", "https://printer.local/", "https://nas.lan/",
    "https://1.0.0.127.in-addr.arpa/", "https://db.internal./", "https://hidden.onion/", "https://a.corp/", "https://x.home.arpa/",
    # who is who in the authority
    "https://user@example.com/", "https://user:secret@example.com/", "https://example.com@127.0.0.1/", "https://@example.com/",
    "https://127.0.0.1\\@example.com/", "https://example.com\\.evil.example/", "https://example.com%2f@127.0.0.1/",
    "https://example.com%00.evil.example/", "https://example.com#@127.0.0.1/", "https://127.0.0.1#.example.com/", "https://%31%32%37.0.0.1/",
    "https://exam%70le.com/", "https:///example.com/", "https://", "https:///", "https://?x", "https:example.com",
    "//example.com/", "example.com", "", "https://./", "https://.example.com/", "https://example..com/", "https://-a.example.com/", "https://a-.example.com/",
    "https://exa mple.com/", "https://example.com /", " https://example.com/", "https://example.com/\n", "https://℀.example.com/",
    "https://example.com℀evil.com/", f"https://{'a' * 64}.example.com/", f"https://{'a.' * 130}com/", f"https://example.com/{'a' * 9000}",
    # lines that would become headers
    "https://example.com/\r\nX-Injected: 1", "https://example.com/%0d%0a\r\n", "https://example.com\r\n.evil.example/", "https://example.com/\ta",
    "ht\ntps://example.com/", "https://example.com/a b", "https://example.com/\x00", "https://example.com/\x7f", "https://example.com/ü",
    # ports
    "https://example.com:22/", "https://example.com:25/", "https://example.com:6379/", "https://example.com:8080/", "https://example.com:0/",
    "https://example.com:/", "https://example.com:65536/", "https://example.com:443x/", "https://example.com:-1/", "https://example.com:0443/",
    "https://example.com:443:80/", "https://example.com:４４３/", "https://1.1.1.1:53/", "https://[2606:4700::1111]:53/",
    # schemes
    "file:///etc/passwd", "gopher://example.com:70/_", "ftp://example.com/", "dict://example.com:11211/", "ldap://example.com/",
    "javascript:alert(1)", "data:text/plain,x", "unix:///run/docker.sock", "jar:https://example.com/!/", "ws://example.com/",
    "https+unix://example.com/", "view-source:https://example.com/", "httpss://example.com/", "http:/example.com/",
]  # fmt: skip

ALLOWED = {
    "https://example.com": ("example.com", 443, "/", "example.com"),
    "HTTPS://Example.COM./a?b=c": ("example.com", 443, "/a?b=c", "example.com"),
    "https://example.com?q": ("example.com", 443, "/?q", "example.com"),
    "https://example.com:8443/x": ("example.com", 8443, "/x", "example.com:8443"),
    "https://example.com:443/": ("example.com", 443, "/", "example.com"),
    "https://bücher.example.com/": ("xn--bcher-kva.example.com", 443, "/", "xn--bcher-kva.example.com"),
    "https://xn--bcher-kva.example.com/": ("xn--bcher-kva.example.com", 443, "/", "xn--bcher-kva.example.com"),
    "https://my_service.example.com/": ("my_service.example.com", 443, "/", "my_service.example.com"),
    "https://1.1.1.1/": ("1.1.1.1", 443, "/", "1.1.1.1"),
    "https://[2606:4700:4700::1111]/": ("2606:4700:4700::1111", 443, "/", "[2606:4700:4700::1111]"),
    "https://[2606:4700:4700:0::1111]:8443/": ("2606:4700:4700::1111", 8443, "/", "[2606:4700:4700::1111]:8443"),
    "https://example.com/@127.0.0.1/?a=%0d%0a": ("example.com", 443, "/@127.0.0.1/?a=%0d%0a", "example.com"),
    "https://4.example.com/": ("4.example.com", 443, "/", "4.example.com"),
}


def test_the_corpus_is_large() -> None:
    assert len(set(REFUSED)) == len(REFUSED) >= 60


@pytest.mark.parametrize("url", REFUSED)
def test_a_dangerous_url_is_refused_for_good(url: str) -> None:
    with pytest.raises(Failure) as failed:
        check_url(url, [], allow_http=True)

    assert (failed.value.type, failed.value.retry) == ("AddressRefused", False)


@pytest.mark.parametrize("url", [url.replace("https://", "http://", 1) for url in REFUSED if url.startswith("https://")])
def test_it_is_no_better_over_http(url: str) -> None:
    with pytest.raises(Failure):
        check_url(url, [], allow_http=True)


@pytest.mark.parametrize("url", ALLOWED)
def test_a_public_url_passes_in_its_plain_form(url: str) -> None:
    checked = check_url(url)

    assert (checked.host, checked.port, checked.target, checked.authority) == ALLOWED[url]


def test_http_needs_the_flag_or_a_listed_host() -> None:
    with pytest.raises(Failure, match="https"):
        check_url("http://example.com/")

    assert check_url("http://example.com/", allow_http=True).port == 80
    assert check_url("http://example.com/", ["example.com"]).port == 80


@pytest.mark.parametrize(
    ("url", "allow"),
    [
        ("http://localhost:9000/", "localhost"),
        ("http://LOCALHOST.:9000/", "localhost"),
        ("http://receiver:9000/", "receiver:9000"),
        ("https://10.1.2.3:9000/", "10.0.0.0/8"),
        ("https://10.1.2.3:9000/", "10.1.2.3"),
        ("http://10.1.2.3:9000/", "10.1.2.3:9000"),
        ("https://[fd00::1]:9000/", "fd00::/8"),
        ("https://[fd00::1]:9000/", "[fd00::1]:9000"),
        ("https://[fd00:0::1]:9000/", "[fd00::1]"),
        ("https://BÜCHER.example/", "bücher.example"),
    ],
)
def test_what_the_operator_lists_may_be_called(url: str, allow: str) -> None:
    assert check_url(url, [allow])


@pytest.mark.parametrize(
    ("url", "allow"),
    [
        ("https://receiver:9001/", "receiver:9000"),
        ("https://sub.receiver.local/", "receiver.local"),
        ("https://11.1.2.3:9000/", "10.0.0.0/8"),
        ("https://[::ffff:10.1.2.3]/", "10.0.0.0/8"),
        ("https://192.168.0.1/", "10.0.0.0/8"),
        ("https://user@receiver/", "receiver"),
    ],
)
def test_a_listed_host_opens_nothing_beside_itself(url: str, allow: str) -> None:
    with pytest.raises(Failure):
        check_url(url, [allow], allow_http=True)


@pytest.mark.parametrize(
    "entry", ["", "*", "*.example.com", "10.0.0.1/8", "https://example.com", "a b", "user@host", "host:99999", "300.1.1.1"]
)
def test_a_malformed_entry_is_told_to_the_operator(entry: str) -> None:
    with pytest.raises(ValueError, match="is no host"):
        parse_allow([entry])


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    url = check_url("https://example.com/")

    check_addresses(url, [ip_address("1.1.1.1")], parse_allow([]), False)
    with pytest.raises(Failure, match=r"example.com leads to 10\.0\.0\.1"):
        check_addresses(url, [ip_address("1.1.1.1"), ip_address("10.0.0.1")], parse_allow([]), False)


def test_a_port_that_only_a_listed_network_opens_is_judged_by_the_address() -> None:
    allow = parse_allow(["10.0.0.0/8"])
    url = check_url("https://inside.example.com:9000/", allow)

    check_addresses(url, [ip_address("10.0.0.1")], allow, False)
    with pytest.raises(Failure, match="Port 9000"):
        check_addresses(url, [ip_address("1.1.1.1")], allow, False)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "99.255.255.255", "172.32.0.1", "223.255.255.255", "2606:4700::1", "2a00::1", "2001:4860::8888"]
)
def test_the_public_internet_is_global(address: str) -> None:
    assert is_global(ip_address(address))
