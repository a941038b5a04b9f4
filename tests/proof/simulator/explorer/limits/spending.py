"""Spends under grants, in every order of events: every step that may happen next.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator
from typing import Any

from proof.simulator.explorer.limits.book import HOLDERS, LIVE, NONE, OVER
from proof.simulator.explorer.limits.rules import REGIONS
from proof.simulator.explorer.limits.state import (
    GIVEN_UP,
    LOST,
    REMOVED,
    THERE,
    Entry,
    HolderState,
    Look,
    Process,
    State,
    Taking,
    replaced,
    with_entries,
)
from proof.simulator.explorer.limits.world import Events, World
from proof.simulator.explorer.stepping import Step

_TAKERS_MAX = 2
"""Who has read what was sent and not taken it up yet."""


class Model(World):
    """The steps of one case; see `walk.Walkable`."""

    def steps(self, state: State) -> Iterator[Step[tuple[Any, ...], State]]:
        """Yield everything that may happen next."""
        for label, after in self._events(state):
            yield Step(label, after, self.wrong(after))

    def _events(self, state: State) -> Events:
        live = self.live(state)
        for number, region in enumerate(self.case.processes):
            if region in live:
                yield from self._process(state, number, region)
        for number, entry in enumerate(state.entries):
            yield from self._entry(state, number, entry)
        yield from self.time(state)
        yield from self.replication(state)
        yield from self._reclaimer(state)
        yield from self._transfers(state)
        if self.case.loses:
            yield from self._loss(state)

    def _process(self, state: State, number: int, region: int) -> Events:
        process = state.processes[number]
        if process.version == 0:
            yield from self._takes(state, number, region)
            return
        phase = self.phase(state, region, process.version)
        current = self.current(state, region)
        may_sign = self.book.may_sign(current, process.version, phase) and phase < OVER
        if may_sign and process.spent < self.case.grant + process.more:
            yield ("process", number, "sends"), self._sent(state, number, region, phase)
        if self.case.crashes:
            yield ("process", number, "crashes"), self._dropped(state, number)
        if not any(entry.owner == number for entry in state.entries):
            after = self.book.close(current, process.version, process.spent, process.unsure)
            dropped = self._dropped(state, number)
            if after != NONE:
                dropped = self.written(dropped, region, after, region)
            yield ("process", number, "closes"), dropped
            if self.case.renews and process.takes < self.case.takes:
                yield from self._renews(state, number, region)
        if self.case.forks:
            yield from self._forks(state, number, region)
        if process.tops < self.case.tops:
            yield from self._tops_up(state, number, region)

    def _tops_up(self, state: State, number: int, region: int) -> Events:
        """Let a grant grow and go on; its process is answered, or goes on as it was."""
        process = state.processes[number]
        once = process._replace(tops=process.tops + 1)
        grown = self.with_process(state, number, once._replace(more=process.more + 1))
        if self.case.tops_unwritten:
            yield ("process", number, "counts on more"), grown
        after = self.book.top_up(self.current(state, region), process.version)
        if after == NONE:
            return
        name = (region, process.version)
        phases = tuple(phase for phase in state.phases if phase[:2] != name)
        for label, known in (
            ("has more", grown),
            ("has more, and no answer", self.with_process(state, number, once)),
        ):
            again = known._replace(phases=phases)
            yield ("process", number, label), self.written(again, region, after, region)

    def _forks(self, state: State, number: int, region: int) -> Events:
        """Copy a grant into another process; one that obeys the rules drops it there."""
        version = state.processes[number].version
        for other, of in enumerate(self.case.processes):
            if of == region and state.processes[other].version == 0:
                child = Process(version, takes=state.processes[other].takes)
                yield ("process", number, "forks"), self.with_process(state, other, child)

    def _takes(self, state: State, number: int, region: int) -> Events:
        process, current = state.processes[number], self.current(state, region)
        if process.takes == self.case.takes:
            return
        if self.case.reads_before and process.read != current:
            yield (
                ("process", number, "reads"),
                self.with_process(state, number, process._replace(read=current)),
            )
        read = process.read if self.case.reads_before else current
        if read == NONE:
            return
        after = self.book.take(read, self.case.grant)
        if after == NONE:
            return
        if not self.book.is_written(read, current):
            yield (
                ("process", number, "is refused"),
                self.with_process(state, number, process._replace(read=NONE)),
            )
            return
        taken = Process(self.book[after].version, takes=process.takes + 1)
        written = self.written(self.with_process(state, number, taken), region, after, region)
        yield ("process", number, "takes", self.book[after].version), written

    def _renews(self, state: State, number: int, region: int) -> Events:
        process = state.processes[number]
        current = self.current(state, region)
        known = (process.version, process.spent, process.unsure)
        after = self.book.renew(current, *known, self.case.grant)
        if after != NONE:
            taken = Process(self.book[after].version, takes=process.takes + 1)
            written = self.written(self.with_process(state, number, taken), region, after, region)
            yield ("process", number, "renews", process.version), written

    def _sent(self, state: State, number: int, region: int, phase: int) -> State:
        process = state.processes[number]
        entry = Entry(region, process.version, 0, True, number, phase != LIVE)  # noqa: FBT003
        state = self.with_process(state, number, process._replace(spent=process.spent + 1))
        return with_entries(state, (*state.entries, entry))

    def _dropped(self, state: State, number: int) -> State:
        takes = state.processes[number].takes
        entries = tuple(
            entry._replace(owner=NONE) if entry.owner == number else entry
            for entry in state.entries
        )
        return with_entries(self.with_process(state, number, Process(takes=takes)), entries)

    def _entry(self, state: State, number: int, entry: Entry) -> Events:
        rest = state.entries[:number] + state.entries[number + 1 :]
        if number and state.entries[number - 1] == entry:
            return  # the same as the one before
        if entry.is_alive and entry.holder in self.live(state):
            landed = entry._replace(mask=1 << entry.holder, is_alive=False)
            yield ("a spend lands",), with_entries(state, (*rest, landed))
            if entry.owner == NONE:
                yield ("a request vanishes",), with_entries(state, rest)
        if entry.owner != NONE:
            yield from self._answers(state, rest, entry)
        if entry.mask:
            for region in self.live(state):
                if not entry.mask >> region & 1 and state.phase != GIVEN_UP:
                    shown = entry._replace(mask=entry.mask | 1 << region)
                    yield ("a spend reaches", REGIONS[region]), with_entries(state, (*rest, shown))
            yield from self._folds(state, rest, entry)

    def _answers(self, state: State, rest: tuple[Entry, ...], entry: Entry) -> Events:
        process = state.processes[entry.owner]
        nobody = entry._replace(owner=NONE)
        if entry.mask:
            yield ("process", entry.owner, "is answered"), with_entries(state, (*rest, nobody))
        else:
            back = self.with_process(state, entry.owner, process._replace(spent=process.spent - 1))
            yield (
                ("process", entry.owner, "knows that it was not applied"),
                with_entries(back, rest),
            )
        unsure = self.with_process(state, entry.owner, process._replace(unsure=process.unsure + 1))
        yield ("process", entry.owner, "gives up"), with_entries(unsure, (*rest, nobody))

    def _folds(self, state: State, rest: tuple[Entry, ...], entry: Entry) -> Events:
        live = self.live_mask(state)
        if not self.case.folds or entry.mask & live != live or entry.owner != NONE:
            return
        views = tuple(self.view(state, region) for region in self.live(state))
        if self.book.shows_all_closed(views, entry.holder, entry.version):
            yield (
                ("a spend is folded",),
                with_entries(state._replace(folded=state.folded + 1), rest),
            )

    def _reclaimer(self, state: State) -> Events:
        for holder in self.live(state):
            current = self.current(state, holder)
            for version in self.book[current].grants:
                if self.book.is_over(current, version, self.phase(state, holder, version)):
                    yield from self._looks(state, holder, version, current)
        look = state.look
        if look is None or look.holder not in self.live(state):
            return
        current = self.current(state, look.holder)
        rest = state._replace(look=None)
        if not self.book.is_written(look.read, current):
            yield ("the reclaimer is refused",), rest
            return
        base = current if self.case.closes_in_place else look.read
        after = self.book.reclaim(base, look.version, look.shown)
        if after != NONE:
            label = ("the reclaimer closes", REGIONS[look.holder], look.version, "at", look.shown)
            yield label, self.written(rest, look.holder, after, look.holder)

    def _looks(self, state: State, holder: int, version: int, current: int) -> Events:
        shown = sum(
            1
            for entry in state.entries
            if (entry.holder, entry.version) == (holder, version) and entry.mask >> holder & 1
        )
        for seen in range(0 if self.case.reads_stale else shown, shown + 1):
            look = Look(holder, version, current, seen)
            if look != state.look:
                yield ("the reclaimer reads", REGIONS[holder], version), state._replace(look=look)

    def _transfers(self, state: State) -> Events:
        live = self.live(state)
        for giver, taker in sorted(self.case.sends):
            if giver in live and state.sent < self.case.sent_max:
                if self.case.fetches:
                    yield from self._fetches(state, giver, taker)
                else:
                    yield from self._sends(state, giver, taker)
            if taker in live:
                yield from self._takes_up(state, giver, taker)

    def _takes_up(self, state: State, giver: int, taker: int) -> Events:
        one = state.holders[giver]
        there, current = one.writes[one.shown[taker]], self.current(state, taker)
        taking = Taking(taker, giver, there, current)
        if not self.case.takes_later:
            yield from self._takes_begun(state, giver, taker)
            yield from self._taken_up(state, taking)
            return
        is_new = self.book.take_up(current, there, current) != NONE and taking not in state.taking
        if is_new and len(state.taking) < _TAKERS_MAX:
            label = (REGIONS[taker], "reads what is sent by", REGIONS[giver])
            yield label, state._replace(taking=state.taking | {taking})
        yield from self._takes_begun(state, giver, taker)

    def _takes_begun(self, state: State, giver: int, taker: int) -> Events:
        for begun in sorted(state.taking):
            if begun[:2] == (taker, giver):
                yield from self._taken_up(state._replace(taking=state.taking - {begun}), begun)

    def _fetches(self, state: State, giver: int, taker: int) -> Events:
        """Let the giver send, through its own region; the taker goes by what that has answered."""
        after = self.book.send(self.current(state, giver), taker)
        if after != NONE and taker in self.live(state):
            begun = Taking(taker, giver, after, self.current(state, taker))
            sent = state._replace(sent=state.sent + 1, taking=state.taking | {begun})
            label = (REGIONS[taker], "fetches from", REGIONS[giver])
            yield label, self.written(sent, giver, after, giver)

    def _taken_up(self, state: State, taking: Taking) -> Events:
        taker, giver, there, read = taking
        current = self.current(state, taker)
        if not self.book.is_written(read, current):
            yield (REGIONS[taker], "is refused to take up"), state
            return
        after = self.book.take_up(current, there, read)
        if after != NONE:
            label = (REGIONS[taker], "takes up from", REGIONS[giver])
            yield label, self.written(state, taker, after, taker)

    def _sends(self, state: State, giver: int, taker: int) -> Events:
        current = self.current(state, giver)
        sent = state._replace(sent=state.sent + 1)
        if self.case.gives_by_item:
            one = state.holders[taker]
            if self.book[current].available < 1:
                return
            mine, after = self.book.given(current, one.writes[one.shown[giver]])
            sent = self.written(sent, giver, mine, giver)
            yield (
                (REGIONS[giver], "writes the item of", REGIONS[taker]),
                self.written(sent, taker, after, giver),
            )
            return
        if taker not in self.live(state):
            return
        after = self.book.send(current, taker)
        if after != NONE:
            yield (
                (REGIONS[giver], "sends to", REGIONS[taker]),
                self.written(sent, giver, after, giver),
            )

    def _loss(self, state: State) -> Events:
        if state.phase == THERE:
            yield (REGIONS[LOST], "is lost"), self._lost(state)
        if state.phase == REMOVED:
            yield ("nothing more of", REGIONS[LOST], "arrives"), self._given_up(state)
        if state.phase >= min(REMOVED, self.case.reclaims_from) and state.charged_again == NONE:
            yield from self._again(state)

    def _lost(self, state: State) -> State:
        processes = tuple(
            Process(takes=self.case.takes) if region == LOST else one
            for region, one in zip(self.case.processes, state.processes, strict=True)
        )
        # What is under way from it may still arrive; what it alone would have applied is gone.
        entries = tuple(
            entry for entry in state.entries if not (entry.is_alive and entry.holder == LOST)
        )
        look = state.look if state.look and state.look.holder != LOST else None
        phases = tuple(phase for phase in state.phases if phase[0] != LOST)
        state = state._replace(processes=processes, phase=REMOVED, look=look, phases=phases)
        gone = [entry._replace(owner=NONE) if entry.holder == LOST else entry for entry in entries]
        state = with_entries(state, tuple(gone))
        for holder, one in enumerate(state.holders):
            if holder != LOST:
                state = self._trimmed(state, holder, one)
        return state

    def _given_up(self, state: State) -> State:
        live = self.live_mask(state)
        entries = tuple(entry for entry in state.entries if entry.mask & live or entry.is_alive)
        one = state.holders[LOST]
        # What never arrived is gone.
        last = max(one.shown[region] for region in self.live(state))
        base = self.book[one.writes[last]]
        unseen = [entry for entry in state.entries if entry not in entries]
        state = state._replace(
            phase=GIVEN_UP,
            unseen=len(unseen),
            unseen_charged=sum(base.shows_closed(entry.version) for entry in unseen),
            holders=replaced(state.holders, LOST, HolderState(one.writes[: last + 1], one.shown)),
        )
        return with_entries(state, entries)

    def _again(self, state: State) -> Events:
        others = tuple(other for other in range(len(self.case.minted)) if other != LOST)
        for holder in others:
            after = self.book.cut_off(self.current(state, holder), LOST)
            if after != NONE:
                yield (
                    (REGIONS[holder], "cuts off", REGIONS[LOST]),
                    self.written(state, holder, after, holder),
                )
        is_cut = all(HOLDERS[LOST] in self.book[self.current(state, o)].cut for o in others)
        if state.phase < self.case.reclaims_from or not is_cut:
            return
        one = state.holders[LOST]
        base = one.writes[self.case.base_of(one.shown[region] for region in others)]
        mask = sum(1 << region for region in others)
        entries = tuple((e.holder, e.version) for e in state.entries if e.mask & mask)
        items = tuple(self.current(state, holder) for holder in others)
        amount, charged = self.book.stake(base, items, entries)
        after = self.book.mint_again(items[0], LOST, amount)
        again = state._replace(charged_again=charged)
        yield (
            (REGIONS[others[0]], "mints again", amount),
            self.written(again, others[0], after, others[0]),
        )
