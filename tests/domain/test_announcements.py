"""What is said about ready executions survives the way, or is not believed."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.announcements import MOST_NAMED, Announcement, Named, decode, encode, in_messages

SMALL, LARGE = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.builds(Named, SMALL, SMALL, LARGE, st.uuids())
ANNOUNCEMENTS = st.builds(Announcement, st.lists(NAMES, max_size=20), st.lists(SMALL, max_size=5))


@given(ANNOUNCEMENTS)
def test_what_is_said_is_what_is_heard(announcement: Announcement) -> None:
    assert decode(encode(announcement)) == announcement


@given(ANNOUNCEMENTS, st.data())
def test_a_message_with_a_bit_turned_says_nothing(announcement: Announcement, data: st.DataObject) -> None:
    message = bytearray(encode(announcement))
    message[data.draw(st.integers(0, len(message) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    assert decode(bytes(message)) is None


@given(st.binary(max_size=200))
def test_whatever_comes_is_refused_without_an_error(message: bytes) -> None:
    found = decode(message)

    assert found is None or encode(found) == message


@given(st.integers(0, 2000), st.integers(0, 40))
def test_a_burst_is_spread_in_order_and_none_is_left_out(count: int, listeners: int) -> None:
    named = [Named(1, 1, nth, UUID(int=nth)) for nth in range(count)]

    messages = list(in_messages(named, listeners))

    assert [name for message in messages for name in message.named] == named
    assert all(1 <= len(message.named) <= MOST_NAMED for message in messages)
