"""The agent: leader election, and one `Term` of the virtual node after another while this process leads.

A replica that stands by watches nothing and writes nothing: a new leader lists both sides anew.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from runyard.kube import Client, KubeError, LeaderElection, Leadership
from runyard.node.node_settings import NodeSettings
from runyard.node.offer import Offer
from runyard.node.providers.provider import Provider
from runyard.node.published_offer import find_published_offer
from runyard.node.term import Term
from runyard.node.virtual_node import ELECTION_PREFIX
from runyard.telemetry.loop_supervision import keep_going
from runyard.telemetry.node_metrics import NodeMetrics

OFFER_SECONDS = 10.0
"""How long a replica waits for its offer before it may lead with the published one: others may have theirs."""

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
        self._is_stale = False
        """Whether `_offer` is only what the node last published."""
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
        """Whether it leads and all is well with the node, or stands by behind another leader."""
        return self.find_problem() is None

    def find_problem(self) -> str | None:
        """Why it is not ready."""
        if self._term is not None:
            return self._term.find_problem()
        if self._offer is None:
            return "the offer was not read yet"
        if self._election.last_error is not None:
            return f"cannot take part in the election of a leader: {self._election.last_error}"
        return None if self._election.holder else "there is no leader yet"

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
        await self._wait_for_offer()
        async with self._election:
            while True:
                await self._lead(await self._election.wait_leading())

    async def _wait_for_offer(self) -> None:
        """Until there is something to lead with. One that has nothing to offer must not keep others from leading."""
        while True:
            try:
                async with asyncio.timeout(OFFER_SECONDS):
                    await self._has_offer.wait()
                    return
            except TimeoutError:
                _log.error("the offer cannot be read", extra={"node": self._settings.name})
            try:
                published = await find_published_offer(self._client, node=self._settings.name)
            except KubeError as error:
                _log.warning("the published offer cannot be read either: %s", error)
                continue
            if published is not None and self._offer is None:
                self._offer, self._is_stale = published, True
                return

    async def _lead(self, leadership: Leadership) -> None:
        """One term; its loops end with the leadership."""
        self._term = Term(
            self._client,
            self._make_provider(),
            self._settings,
            leadership=leadership,
            offer=self._get_offer(),
            is_stale=self._is_stale,
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
            self._offer, self._is_stale = offer, False
            self._has_offer.set()
            if self._term is not None:
                self._term.set_offer(offer)
        await asyncio.Event().wait()  # an offer that never changes again

    def _get_offer(self) -> Offer:
        if self._offer is None:
            raise RuntimeError("there is no offer yet")
        return self._offer
