"""How the work of a run is split: what runs its tasks, and into how many pieces the keys of a stage go.

The key groups of a job stay those its state has, whatever runs it later; how many tasks scan follows from the
cores of each run. Rows depend on neither.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """How the work of a run is split.

    executors: that run tasks; 0: the process of the run does.
    cores: of them all, and so how many tasks scan at a time.
    key_groups: pieces the keys of every stage are split into, and the ingresses of a topic.
    notes: what a user should know of how the executors were counted, a sentence each.
    """

    executors: int
    cores: int
    key_groups: int
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """
        >>> Layout(2, 4, 4).words
        '4 key groups on 4 cores of 2 executors'
        >>> Layout(0, 1, 2).words
        '2 key groups on 1 core of this machine'
        """
        place = _counted(self.executors, "executor") if self.executors else "this machine"
        return f"{_counted(self.key_groups, 'key group')} on {_counted(self.cores, 'core')} of {place}"


def layout_changes(before: Layout | None, now: Layout) -> tuple[str, ...]:
    """What is split in another way than in the run before, in words; nothing where that run did not say.

    Another number of key groups is a change of the job, which its manifest shows.

    >>> layout_changes(Layout(2, 2, 2), Layout(4, 4, 2))[0]
    'the tasks had 2 cores and have 4; the job keeps its 2 key groups (--key-groups 4 builds its state anew)'
    """
    if before is None or before.cores == now.cores or before.key_groups != now.key_groups:
        return ()
    words = f"the tasks had {_counted(before.cores, 'core')} and have {now.cores}"
    if now.key_groups == now.cores:
        return (words,)
    groups = _counted(now.key_groups, "key group")
    return (f"{words}; the job keeps its {groups} (--key-groups {now.cores} builds its state anew)",)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
