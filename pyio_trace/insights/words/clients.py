"""Words for libraries that send requests: what they open is theirs, such as certificates."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m

WORDS: m.Words = {
    (m.OPENED_TO_READ, "httpx"): Remedy(
        "Make one httpx.Client, and send all requests by it: each new one loads its settings and certificates, and "
        "connects anew.",
        library="httpx",
    ),
    (m.OPENED_TO_READ, "requests"): Remedy(
        "Make one requests.Session, and send all requests by it: each requests.get() loads its settings and "
        "certificates, and connects anew.",
        library="requests",
    ),
}
