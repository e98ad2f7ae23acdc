"""How values of the engines become the domain's."""

from __future__ import annotations

import pickle
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from duly.adapters.sql.rows import as_uuid, as_uuids


@given(st.uuids())
def test_sixteen_bytes_are_the_uuid_that_the_library_makes_of_them(id: UUID) -> None:
    made = as_uuid(id.bytes)

    assert made == id
    assert (hash(made), str(made), repr(made), made.bytes, made.is_safe) == (hash(id), str(id), repr(id), id.bytes, id.is_safe)
    assert pickle.loads(pickle.dumps(made)) == id


@given(st.lists(st.uuids(), max_size=5))
def test_a_list_of_them_is_one_after_another(ids: list[UUID]) -> None:
    assert as_uuids(b"".join(id.bytes for id in ids)) == ids
    assert as_uuids(ids) == ids
