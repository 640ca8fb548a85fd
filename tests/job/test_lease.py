"""Two drivers and one job directory in a store: at any time one holds the lease, and the other is told.

The world here has a clock of its own. Everybody has a thread, of which one runs at a time: until it asks the
store for something or sleeps, and goes on when the world's time is there. So delays make every interleaving.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import cycle
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideglass.core.errors import StateError
from tideglass.job.lease import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    RENEW_SECONDS,
    DirectoryLease,
    LeaseFile,
    LeaseStatus,
    read_lease,
)

T = TypeVar("T")


@dataclass
class World:
    """Virtual time, and the files of a store whose clock is ahead and gives whole seconds."""

    delays: Iterator[float] = field(default_factory=lambda: cycle([0.0]))
    lost_answers: Iterator[bool] = field(default_factory=lambda: cycle([False]))
    store_ahead_seconds: float = 0.0
    now: float = 0.0
    files: dict[str, tuple[bytes, str, int]] = field(default_factory=dict[str, tuple[bytes, str, int]])
    failures: list[BaseException] = field(default_factory=list[BaseException])
    _waiting: list[tuple[float, int, threading.Event]] = field(
        default_factory=list[tuple[float, int, threading.Event]]
    )
    _parked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _count: int = 0

    def starts(self, at: float, act: Callable[[], object]) -> None:
        """Have somebody act from a time on."""

        def live() -> None:
            mine.wait()
            try:
                act()
            except BaseException as error:
                self.failures.append(error)
            self._parked.release()

        mine = self._until(at)
        threading.Thread(target=live, daemon=True).start()

    def sleep(self, seconds: float) -> None:
        mine = self._until(self.now + seconds)
        self._parked.release()
        mine.wait()

    def play(self) -> None:
        """Let time go on until all have ended. Raises what one of them did."""
        while self._waiting:
            self.now, _, event = heappop(self._waiting)
            event.set()
            self._parked.acquire()
        if self.failures:
            raise self.failures[0]

    def _until(self, at: float) -> threading.Event:
        self._count += 1
        event = threading.Event()
        heappush(self._waiting, (at, self._count, event))
        return event

    # ------------------------------------------------------------ the store

    def put(self, name: str, body: bytes) -> bool:
        self._count += 1
        second = int(self.now + self.store_ahead_seconds) * 1_000_000_000
        self.files[name] = (body, str(self._count), second)
        return True

    def holder(self) -> str | None:
        """The host that the lease names now."""
        if "lock" not in self.files:
            return None
        document = json.loads(self.files["lock"][0])
        return None if document["ended"] else document["host"]


@dataclass(frozen=True)
class Found:
    version: str
    modified_ns: int


@dataclass(frozen=True)
class StoreFile:
    """A file of the store: a request is under way, is done at once, and its answer is under way."""

    world: World
    name: str = "lock"

    def with_name(self, name: str) -> LeaseFile:
        return StoreFile(self.world, name)

    def status(self) -> LeaseStatus | None:
        found = self._asked(lambda: self.world.files.get(self.name))
        return None if found is None else Found(found[1], found[2])

    def read_bytes(self) -> bytes:
        found = self._asked(lambda: self.world.files.get(self.name))
        if found is None:
            raise FileNotFoundError(self.name)
        return found[0]

    def create(self, body: bytes) -> bool:
        return self._written(lambda: self.name not in self.world.files, body)

    def replace_if(self, body: bytes, version: str) -> bool:
        return self._written(
            lambda: self.name in self.world.files and self.world.files[self.name][1] == version, body
        )

    def unlink(self, missing_ok: bool = False) -> None:
        self._asked(lambda: self.world.files.pop(self.name, None))

    def _written(self, allowed: Callable[[], bool], body: bytes) -> bool:
        def write() -> bool:
            return allowed() and self.world.put(self.name, body)

        done = self._asked(write)
        return self._asked(write) if next(self.world.lost_answers) else done

    def _asked(self, act: Callable[[], T]) -> T:
        self.world.sleep(next(self.world.delays))
        answer = act()
        self.world.sleep(next(self.world.delays))
        return answer


@dataclass
class Driver:
    """Somebody who wants the directory.

    rate, ahead_seconds: of its clock.
    """

    world: World
    host: str
    rate: float = 1.0
    ahead_seconds: float = 0.0
    commits: int = 0
    took_at: float | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.lease = DirectoryLease(StoreFile(self.world), self.clock, self.sleep, self.host)

    def clock(self) -> float:
        return self.world.now * self.rate + self.ahead_seconds

    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds / self.rate)

    def takes(self) -> bool:
        try:
            self.lease.take()
        except StateError as error:
            self.refused = str(error)
            return False
        self.took_at = self.world.now
        return True

    def commits_once(self, seconds: float) -> None:
        """Commit something, so many seconds after asking. Raises StateError for a lease that is lost."""
        self.lease.check()
        self.world.sleep(seconds)
        assert self.world.holder() == self.host, f"{self.host} commits what is {self.world.holder()}'s"
        self.commits += 1

    def lives(self, pauses: list[float]) -> None:
        """Take the lease, renew it and commit, and stand still for so long in between."""
        if not self.takes():
            return
        try:
            for pause in pauses:
                self.world.sleep(pause)
                self.lease.renew()
                self.world.sleep(pause / 2)
                self.commits_once(0.8 * MARGIN_SECONDS)
        except StateError as error:
            self.refused = str(error)
        else:
            self.lease.release()


def seconds(most: float) -> st.SearchStrategy[float]:
    return st.floats(0, most, allow_nan=False)


#: Mostly quick answers, now and then one that takes longer than a lease holds.
delays = st.one_of(seconds(0.5), seconds(3), seconds(1.5 * LEASE_SECONDS))
#: Mostly a busy driver, now and then one that stands still.
pauses = st.lists(st.one_of(seconds(RENEW_SECONDS), seconds(3 * LEASE_SECONDS)), max_size=4)


@given(
    data=st.data(),
    starts=st.lists(seconds(2 * LEASE_SECONDS), min_size=2, max_size=3),
    ahead=st.floats(-1e5, 1e5, allow_nan=False),
)
@settings(deadline=None)
def test_nothing_is_committed_by_a_driver_that_does_not_hold_the_lease(
    data: st.DataObject, starts: list[float], ahead: float
):
    """Whatever the delays of requests, lost answers, clocks, and drivers that stand still."""
    world = World(
        cycle(data.draw(st.lists(delays, min_size=1, max_size=12), "delays")),
        cycle(data.draw(st.lists(st.booleans(), min_size=1, max_size=5), "lost answers")),
        abs(ahead),
    )
    for number, at in enumerate(starts):
        rate = data.draw(st.floats(0.97, 1.03), "rate")
        driver = Driver(world, f"host{number}", rate, ahead * number)
        world.starts(at, lambda driver=driver, own=data.draw(pauses, "pauses"): driver.lives(own))
    world.play()


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.05, 3.0])
def test_of_two_that_start_exactly_one_wins_and_the_other_is_told_by_whom_and_since_when(apart: float):
    world = World(cycle([0.02, 0.05, 0.01]))
    drivers = [Driver(world, "one"), Driver(world, "two")]
    for number, driver in enumerate(drivers):
        world.starts(number * apart, lambda driver=driver: driver.lives([1.0] * 30))
    world.play()
    (winner,) = (each for each in drivers if each.took_at is not None)
    (other,) = (each for each in drivers if each is not winner)
    assert winner.commits == 30
    assert f"on {winner.host}, since 20" in other.refused
    assert other.refused.startswith("a run is under way in ")


def test_a_driver_on_another_node_goes_on_after_one_that_died():
    world = World(cycle([0.02]), store_ahead_seconds=-7000)
    dead, next_one = Driver(world, "dead", ahead_seconds=1e6), Driver(world, "next")
    world.starts(0, dead.takes)
    world.starts(10, next_one.takes)
    world.play()
    assert next_one.took_at is not None
    assert LEASE_SECONDS <= next_one.took_at <= LEASE_SECONDS + 5
    world.starts(world.now, lambda: dead.commits_once(0))
    with pytest.raises(StateError, match=r"\[LEASE_LOST\] .* on next, since 20.*has taken it over"):
        world.play()


def test_a_lease_that_is_long_over_is_taken_at_once_by_the_clock_of_the_store():
    world = World(cycle([0.02]))
    world.starts(0, Driver(world, "dead").takes)
    late = Driver(world, "late", ahead_seconds=-5e5)
    world.starts(1000, late.takes)
    world.play()
    assert late.took_at is not None
    assert late.took_at < 1001
    assert list(world.files) == ["lock"]  # what asked for the time is gone


def test_a_lease_that_is_released_is_free_at_once():
    world = World()
    first, second = Driver(world, "first"), Driver(world, "second")
    world.starts(0, lambda: first.lives([1.0]))
    world.starts(20, second.takes)
    world.play()
    assert second.took_at == 20


def test_a_holder_that_is_young_asks_nobody():
    world = World()
    driver = Driver(world, "one")
    world.starts(0, driver.takes)
    world.play()
    version = world.files["lock"][1]
    world.now += LEASE_SECONDS - MARGIN_SECONDS - 1
    driver.lease.check()
    assert world.files["lock"][1] == version


def test_a_holder_whose_lease_was_not_renewed_in_time_but_that_nobody_took_goes_on():
    world = World()
    driver = Driver(world, "one")
    world.starts(0, driver.takes)
    world.starts(500, lambda: driver.commits_once(0))
    world.play()
    assert driver.commits == 1


def test_a_lock_that_holds_something_else_is_named():
    world = World()
    world.put("lock", b"nonsense")
    driver = Driver(world, "one")
    world.starts(0, driver.lease.take)
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\].* does not say who holds"):
        world.play()


def test_a_lock_that_is_removed_is_lost():
    world = World()
    driver = Driver(world, "one")
    world.starts(0, driver.takes)
    world.play()
    world.files.clear()
    world.starts(500, lambda: driver.commits_once(0))
    with pytest.raises(StateError, match="was removed"):
        world.play()


def no_delay(world: World, seconds: float) -> None:
    """A sleep of no length."""


def test_the_thread_of_a_lease_renews_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tideglass.job.lease.RENEW_SECONDS", 0.01)
    world = World()
    file = StoreFile(world)
    monkeypatch.setattr(World, "sleep", no_delay)  # nobody else lives here
    with DirectoryLease(file, host="one"):
        ends = threading.Event()
        for _ in range(500):
            seen = read_lease(file)
            if seen is not None and seen.document.renewals >= 3:
                break
            ends.wait(0.02)
        else:
            pytest.fail("it was not renewed")
        assert world.holder() == "one"
    assert world.holder() is None
