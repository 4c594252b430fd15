"""What an actor hands to the bridge: visits, each with the records of its answer for the archive.

The bridge must write records down and tell the visit where they lie, nothing else. So it reads of a visit only the two
parts that it needs; the document, by far the largest, passes as the bytes it came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from opilio.model import Fetch, Lease, Visit

POLL_S = 2.0  # an actor answers after this time, with or without parcels, and is asked again
ALONE_S = 20.0  # an actor that was not asked for so long ends
WATCH_S = 1.0  # how often it looks


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A visit as an actor sends it. Its `fetch` gives the place of the response within `records`."""

    visit: Visit
    records: bytes = b""


_READ = {"lease": Lease, "fetch": Fetch, "fatal": str}

if TYPE_CHECKING:

    class ClosedVisit(msgspec.Struct, frozen=True, array_like=True):
        """A visit of which only some parts are read."""

        lease: Lease
        fetch: Fetch
        fatal: str

else:
    ClosedVisit = msgspec.defstruct(
        "ClosedVisit",
        [(name, _READ.get(name, msgspec.Raw)) for name in Visit.__struct_fields__],
        frozen=True,
        array_like=True,
    )


class ClosedParcel(msgspec.Struct, frozen=True, array_like=True):
    """A parcel as the bridge reads it."""

    visit: ClosedVisit
    records: bytes = b""


leases_decoder: msgspec.msgpack.Decoder[list[Lease]] = msgspec.msgpack.Decoder(list[Lease])
parcels_decoder: msgspec.msgpack.Decoder[list[ClosedParcel]] = msgspec.msgpack.Decoder(list[ClosedParcel])


def placed(visit: ClosedVisit, fetch: Fetch, fatal: str = "") -> Any:
    """The visit with another `fetch`."""
    return msgspec.structs.replace(visit, fetch=fetch, fatal=fatal)
