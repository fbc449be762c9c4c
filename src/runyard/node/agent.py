"""The agent: leader election, and one `Term` of the virtual node after another while this process leads.

A replica that stands by watches nothing and writes nothing: a new leader lists both sides anew.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from runyard.kube import Client, LeaderElection, Leadership
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import Offer
from runyard.node.providers.provider import Provider
from runyard.node.term import Term
from runyard.node.virtual_node import ELECTION_PREFIX
from runyard.telemetry.loop_supervision import keep_going
from runyard.telemetry.node_metrics import NodeMetrics

_log = logging.getLogger(__name__)


class Agent:
    """One replica."""

    def __init__(
        self,
        client: Client,
        settings: NodeSettings,
        *,
        make_provider: Callable[[], Provider],
        follow_offers: Callable[[], AsyncIterator[Offer]],
        metrics: NodeMetrics,
    ) -> None:
        self._client = client
        self._make_provider = make_provider
        self._settings = settings
        self._follow = follow_offers
        self._metrics = metrics
        self._offer: Offer | None = None
        self._has_offer = asyncio.Event()
        self._term: Term | None = None
        self._election = LeaderElection(
            client,
            f"{ELECTION_PREFIX}{settings.name}",
            namespace=settings.namespace,
            identity=settings.address,
        )

    @property
    def is_ready(self) -> bool:
        """Whether it leads and the node is registered, or stands by behind another leader."""
        if self._term is not None:
            return self._term.is_registered
        return self._election.last_error is None and bool(self._election.holder)

    @property
    def is_leading(self) -> bool:
        """Whether this replica leads now."""
        return self._term is not None

    async def run(self) -> None:
        """Lead whenever this process may, until cancelled."""
        async with asyncio.TaskGroup() as group:
            count = self._metrics.count_failure
            group.create_task(keep_going("offer", self._follow_offers, count_failure=count))
            group.create_task(self._lead_for_ever())

    async def _lead_for_ever(self) -> None:
        await self._has_offer.wait()  # a replica that has nothing to offer must not keep others from leading
        async with self._election:
            while True:
                await self._lead(await self._election.wait_leading())

    async def _lead(self, leadership: Leadership) -> None:
        """One term; its loops end with the leadership."""
        self._term = Term(
            self._client,
            self._make_provider(),
            self._settings,
            leadership=leadership,
            offer=self._get_offer(),
            metrics=self._metrics,
        )
        self._metrics.set_leading(is_leading=True)
        _log.info("leading", extra={"node": self._settings.name, "term": leadership.term})
        running = asyncio.create_task(self._term.run(), name="term")
        losing = asyncio.create_task(leadership.wait_lost())
        try:
            await asyncio.wait((running, losing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (running, losing):
                task.cancel()
            await asyncio.gather(running, losing, return_exceptions=True)
            self._term = None
            self._metrics.set_leading(is_leading=False)
        if not running.cancelled() and (error := running.exception()) is not None:
            raise error

    async def _follow_offers(self) -> None:
        async for offer in self._follow():
            self._offer = offer
            self._has_offer.set()
            if self._term is not None:
                self._term.set_offer(offer)
        await asyncio.Event().wait()  # an offer that never changes again

    def _get_offer(self) -> Offer:
        if self._offer is None:
            raise RuntimeError("there is no offer yet")
        return self._offer
