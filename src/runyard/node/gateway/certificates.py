"""TLS contexts with a certificate per host, of the gateway's own authority.

A key and a signature cost about a millisecond, and are made for hosts that are routed only: a client cannot make the
gateway issue certificates by asking for names.
"""

import datetime
import ssl
from collections import OrderedDict
from collections.abc import Callable

from runyard.node.certificate_authority import LIFETIME, CertificateAuthority, make_server_context

MOST_CONTEXTS = 1024
_RENEW_BEFORE = datetime.timedelta(days=30)


class HostCertificates:
    """TLS contexts by host: the least recently used go first, and old certificates are renewed."""

    def __init__(
        self,
        authority: CertificateAuthority,
        *,
        domain: str,
        is_routed: Callable[[str], bool],
        most: int = MOST_CONTEXTS,
    ) -> None:
        self._authority = authority
        self._is_routed = is_routed
        self._most = most
        self._wildcard = f"*.{domain}"
        self._contexts: OrderedDict[str, tuple[datetime.datetime, ssl.SSLContext]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._contexts)

    def server_context(self) -> ssl.SSLContext:
        """The context to listen with. A host that is not routed gets the wildcard certificate of the domain."""
        context = self._build(self._wildcard)
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject, host: str | None, _: ssl.SSLContext) -> None:
        name = (host or "").lower()
        connection.context = self.find(name if self._is_routed(name) else self._wildcard)

    def find(self, host: str) -> ssl.SSLContext:
        """The context of one host; made if there is none, or only one that ends soon."""
        now = datetime.datetime.now(datetime.UTC)
        renew_at, context = self._contexts.get(host, (now, None))
        if context is None or renew_at <= now:
            context, renew_at = self._build(host), now + LIFETIME - _RENEW_BEFORE
            self._contexts[host] = (renew_at, context)
        self._contexts.move_to_end(host)
        while len(self._contexts) > self._most:
            self._contexts.popitem(last=False)
        return context

    def _build(self, host: str) -> ssl.SSLContext:
        return make_server_context(self._authority.issue(host))
