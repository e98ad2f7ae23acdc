"""Whether a definition that was made in code can be read again."""

from __future__ import annotations

import re

import msgspec

from duly.domain.errors import Invalid
from duly.domain.job import JobSpec

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(JobSpec).decode
_WHERE = re.compile(r" - at `\$\.?([^`]*)`$")


def check_types(spec: JobSpec) -> None:
    """Python holds nobody to an annotation: what is of another type than it says would be kept, and could not be read by anybody.

    Raises Invalid with the field.
    """
    try:
        _decode(_encode(spec))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        found = _WHERE.search(str(error))
        told = str(error)[: found.start()] if found else str(error)
        raise Invalid("DULY-E106", f"{told}.", field=found.group(1) if found and found.group(1) else None) from None
