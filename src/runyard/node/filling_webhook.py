"""The webhook that fills pods in clusters that do not serve MutatingAdmissionPolicies.

Its certificate is of an authority that lives as long as the server: the configuration, which the agent writes, says
whom to trust and where to call. The failure policy is Ignore: without an agent pods are created unfilled, not bound.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiohttp import web

from runyard.kube import Client
from runyard.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from runyard.node.admission.policies import render_webhook_configuration
from runyard.node.admission.webhook import MOST_BODY_BYTES, BadReview, review
from runyard.node.certificate_authority import LIFETIME, CertificateAuthority, make_server_context
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import Shape

FIELD_MANAGER = "runyard-node"
PATH = "/admission"
REAPPLY_SECONDS = 60.0
"""How often the configuration is written again: somebody may have deleted it."""
_RENEWALS = 3
"""A certificate is used for this part of its life."""
_CLOSE_SECONDS = 2.0

_log = logging.getLogger(__name__)


class FillingWebhook:
    """Serves while `run` runs, and keeps its MutatingWebhookConfiguration."""

    def __init__(
        self, client: Client, settings: NodeSettings, *, port: int, read_shapes: Callable[[], Mapping[str, Shape]]
    ) -> None:
        self._client = client
        self._settings = settings
        self._port = port
        self._read_shapes = read_shapes

    async def run(self) -> None:
        """Serve until cancelled, with a new certificate from time to time."""
        while True:
            authority = await asyncio.to_thread(CertificateAuthority)
            context = await asyncio.to_thread(make_server_context, authority.issue(self._settings.address))
            app = web.Application(client_max_size=MOST_BODY_BYTES + 1)
            app.router.add_post(PATH, self._answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_SECONDS)
            await runner.setup()
            try:
                # One socket: with any free port, two would have two.
                host = "::" if ":" in self._settings.address else "0.0.0.0"  # noqa: S104 - the apiserver dials it
                await web.TCPSite(runner, host, self._port, ssl_context=context).start()
                port = runner.addresses[0][1]
                async with asyncio.timeout(LIFETIME.total_seconds() / _RENEWALS):
                    await self._keep_configuration(authority, port)
            except TimeoutError:
                _log.info("the webhook renews its certificate")
            finally:
                await runner.cleanup()

    async def _keep_configuration(self, authority: CertificateAuthority, port: int) -> None:
        host = f"[{self._settings.address}]" if ":" in self._settings.address else self._settings.address
        body = render_webhook_configuration(
            self._settings.name, ca_certificate=authority.certificate_pem, url=f"https://{host}:{port}{PATH}"
        )
        while True:
            await self._client.apply(MUTATING_WEBHOOK_CONFIGURATIONS, body, field_manager=FIELD_MANAGER, force=True)
            await asyncio.sleep(REAPPLY_SECONDS)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        scheduler = self._settings.scheduler if self._settings.has_ledger else None
        try:
            answer = await asyncio.to_thread(review, body, self._read_shapes(), scheduler_name=scheduler)
        except BadReview as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.Response(body=answer, content_type="application/json")
