package main

// mutants is the list: readings of the rules that broke the bound, or delivered nothing, when they were tried.
var mutants = []mutant{
	{
		name: "clamp at zero", file: "level.go",
		old: "l.level = max(l.level-min(n, math.MaxInt64>>1), levelFloor)", new: "l.level = max(l.level-min(n, math.MaxInt64>>1), min(l.level, 0))",
		tests: "TestOwnerKeepsDebt TestLevelAgainstBigIntegers TestSeeds",
	}, {
		name: "remainder dropped", file: "level.go",
		old: "l.level, l.rem = l.level+gain, rem", new: "l.level, l.rem = l.level+gain, rem*0",
		tests: "TestLevelAgainstBigIntegers TestLevelSplitsTimeExactly",
	}, {
		name: "refunds mint", file: "level.go",
		old: "taken = min(n, l.burst-l.level)", new: "taken = n",
		tests: "TestLevelAgainstBigIntegers TestOwnerRefundsNeverMint",
	}, {
		name: "late now mints", file: "gcra.go",
		old: "if after := start + cost; after-at > g.room && full > at ||", new: "if after := start + cost; after-start > g.room && full > at ||",
		tests: "TestGCRACases TestGCRAAgainstExactBucket",
	}, {
		name: "cap per snapshot", file: "meter.go",
		old: "return min(m.level.Now()+m.advanceFor(r)-m.reserved, room-m.live())", new: "return min(m.level.Now()+m.advanceFor(r), room) - m.orphans",
		tests: "TestOwnerGrantsByDemandAndKeepsHalf TestSeeds",
	}, {
		name: "grants forgotten at expiry", file: "meter.go",
		old: "	r.expired = true\n	m.stale += r.reserved\n", new: "	m.bury(r, r.high.mark)\n	return\n",
		tests: "TestExpiredReservationStaysUntilNamedDead",
	}, {
		name: "settled by any later report", file: "meter.go",
		old: "	m.bury(r, u.Dead)\n", new: "	m.bury(r, m.newest())\n",
		tests: "TestExpiredReservationStaysUntilNamedDead",
	}, {
		name: "refill with room pays the expired", file: "meter.go",
		old: "m.pay(m.level.Advance(now))", new: "was := m.level.Now()\n	over := m.level.Advance(now)\n	m.pay(over + m.level.Now() - was)",
		tests: "TestOnlyOverflowPaysForTheExpired",
	}, {
		name: "overwrite without subtracting", file: "inforce.go",
		old: "v.ceiling, v.acked = s.Ceiling(), s.Acknowledged.Used()", new: "v.ceiling, v.acked = c.used.Load()+s.Remaining, s.Acknowledged.Used()",
		tests: "TestCeilingSubtractsWhatTheOwnerDidNotKnow TestSeeds",
	}, {
		name: "age from arrival", file: "inforce.go",
		old: "v.expires = s.Stamp + int64(r.cfg.TTL)", new: "v.expires = now + int64(r.cfg.TTL)",
		tests: "TestFreshnessCountsFromTheReport TestSeeds",
	}, {
		name: "full refill on every worker", file: "ledger.go",
		old: "rate, share := p.Rate, l.members", new: "rate, share := p.Rate, min(l.members, 1)",
		tests: "TestAllowanceIsReArmedByTimeAlone TestSeeds",
	}, {
		name: "workers beside the ring refill", file: "ledger.go",
		old: "	if share == 0 {\n", new: "	if share = max(share, 1); share == 0 {\n",
		tests: "TestSeeds",
	}, {
		name: "delta retried under a new sequence", file: "meter.go",
		old: "	m.apply(r, u.Total, u.Key.Generation)\n", new: "	m.apply(r, Total{Charged: r.total.Charged + u.Total.Charged - u.Base.Charged, Refunded: r.total.Refunded + u.Total.Refunded - u.Base.Refunded}, u.Key.Generation)\n",
		tests: "TestOwnerIsIndifferentToLossOrderAndCopies TestSeeds",
	}, {
		name: "no base for a new owner", file: "owner.go",
		old: "r := &reporter{id: u.From, total: u.Base,", new: "r := &reporter{id: u.From,",
		tests: "TestOwnerStartsUnknownReportersFromTheirBase",
	}, {
		name: "fresh full bucket", file: "owner.go",
		old: "NewLevel(k.policy.Rate, k.policy.Burst, -mulDiv(k.policy.Rate, int64(o.cfg.Advance), perSecond), since)", new: "NewLevel(k.policy.Rate, k.policy.Burst, k.policy.Burst, since)",
		tests: "TestCrashStartIsExhausted TestSeeds",
	}, {
		name: "no version check", file: "inforce.go",
		old: "case s.Mark.Compare(c.rep.seen) <= 0:", new: "case s.Mark == c.rep.seen:",
		tests: "TestSnapshotsAreJudged",
	}, {
		name: "echo before the rings are quiescent", file: "ledger.go",
		old: "return l.grace.done >= period", new: "return period > 0",
		tests: "TestDeadIsNamedWhenRingsHavePassed TestSupersededIsNamedWhenRingsHavePassed TestGraceEndsWhenEveryRingHasPassed",
	}, {
		name: "bootstrap re-armed by an acknowledgement", file: "inforce.go",
		old: "	rep.seen, rep.queued = s.Mark, s.Queued\n", new: "	rep.seen, rep.queued = s.Mark, s.Queued\n	c.allowance.Store(nil)\n	c.tune(now)\n",
		tests: "TestAcknowledgementsReArmNothing TestSeeds",
	}, {
		name: "bootstrap without the unacknowledged", file: "cell.go",
		old: "		if used-v.acked > v.spare-n {\n			allowance.Refund(n, now)\n", new: "		if used-v.acked > v.spare-n && n < 0 {\n			allowance.Refund(n, now)\n",
		tests: "TestAdmit",
	}, {
		name: "two owners both grant", file: "owner.go",
		old: "return o.ring != 0 && now < o.until", new: "return o.ring != 0",
		tests: "TestOwnershipGates TestTheFirstKeyIsConfirmedWithinARoundTrip TestSeeds",
	}, {
		name: "no wait for the old owner", file: "owner.go",
		old: "	if o.settled == never || !o.owns(u.Key.Limit()) {", new: "	if !o.owns(u.Key.Limit()) {",
		tests: "TestOwnershipGates TestCrashStartIsExhausted TestSeeds",
	}, {
		name: "confirmation by less than a majority", file: "ring.go",
		old: "func (v Voting) majority() int { return len(v.Voters)/2 + 1 }", new: "func (v Voting) majority() int { return max(len(v.Voters)/2, 1) }",
		tests: "TestTwoIncarnationsNeverBothActInAnySplit TestConfirmationCountsFromTheAsking",
	}, {
		name: "confirmation by any voter", file: "voters.go",
		old: "	majority := t.ring.Voting().majority()\n", new: "	majority := 1\n",
		tests: "TestSeeds",
	}, {
		name: "late refunds", file: "cell.go",
		old: "back := max(min(n, used, used-(c.reported.Load()-lapse)), 0)", new: "back := max(min(n, used), lapse&0)",
		tests: "TestRefund",
	}, {
		name: "lapsed refunds stay spendable", file: "meter.go",
		old: "r.lapsed += -change - m.level.Give(-change)", new: "m.level.Give(-change)",
		tests: "TestOwnerRefundsNeverMint",
	}, {
		name: "fluid needs", file: "division.go",
		old: "		lack := r.lack\n		m.leaveTurn(r)\n", new: "		lack := min(r.lack, max(r.lack/4, 1))\n		m.leaveTurn(r)\n",
		tests: "TestNeedsAreServedWholeInOrder",
	}, {
		name: "place lost by asking again", file: "division.go",
		old: "	if r.in[byTurn] || r.expired ||", new: "	if r.in[byTurn] {\n		m.takeTurn(r)\n	}\n	if r.in[byTurn] || r.expired ||",
		tests: "TestNeedsAreServedWholeInOrder",
	}, {
		name: "lowered ceiling freed at once", file: "division.go",
		old: "	r.low.ceiling = r.known() + goal\n", new: "	r.low.ceiling = r.known() + goal\n	r.high.ceiling = r.low.ceiling\n	m.reserve(r)\n",
		tests: "TestCeilingIsLoweredAndFreedWhenInForce",
	}, {
		name: "ceilings never lowered", file: "division.go",
		old: "	if own > 2*goal {\n", new: "	if own > 2*goal && own < 0 {\n",
		tests: "TestCeilingIsLoweredAndFreedWhenInForce TestClusterDelivers",
	}, {
		name: "old generation goes on", file: "ledger.go",
		old: "v.policy, v.expires, v.barred = &own, never, never", new: "v.policy, v.barred = &own, never",
		tests: "TestNewGenerationStopsTheOld TestSeeds",
	}, {
		name: "old generation raised", file: "division.go",
		old: "r.expired || r.generation < m.policy.Generation || !m.policy.Limits() {\n		return", new: "r.expired || !m.policy.Limits() {\n		return",
		tests: "TestGenerationsShareOneMeter",
	}, {
		name: "new incarnation frees the old", file: "owner.go",
		old: "		m.replace(old)\n", new: "		m.bury(old, old.high.mark)\n		m.replace(old)\n",
		tests: "TestNewIncarnationKeepsTheOldReservation",
	}, {
		name: "hand-over taken twice", file: "handover.go",
		old: "	case h.ToEpoch != o.epoch:\n		return nil, OldEpoch\n	case k.meter != nil || k.begun == o.ring:", new: "	case k.meter != nil:",
		tests: "TestHandOverKeepsEverything",
	}, {
		name: "hand-over forgets promises", file: "handover.go",
		old: "r.high = grant{ceiling: r.known() + h.Reserved, mark: h.Mark}", new: "r.high = grant{ceiling: r.known(), mark: h.Mark}",
		tests: "TestHandOverKeepsEverything",
	}, {
		name: "a missed ring is ignored", file: "owner.go",
		old: "kept, acts := o.ring != 0 && before == o.ring, o.Acts(now)", new: "kept, acts := o.ring != 0 && before != 0, o.Acts(now)",
		tests: "TestKeptAndMissedRings",
	}, {
		name: "idle eviction forgets debt", file: "meter.go",
		old: "return len(m.reporters) == 0 && m.reserved == 0 && m.level.Full() && m.lines[byView].len == 0", new: "return len(m.reporters) == 0 && m.reserved == 0",
		tests: "TestIdleEvictionNeverGrants",
	}, {
		name: "refused is charged", file: "cell.go",
		old: "		if used > v.ceiling-n {\n			return c.admitSlowly(v, n, now)\n		}\n", new: "		if used > v.ceiling-n {\n			c.used.Add(n)\n			return c.admitSlowly(v, n, now)\n		}\n",
		tests: "TestAdmit TestSeeds",
	}, {
		name: "one of two limits charged", file: "cell.go",
		old: "	if d, would := b.would(vb, m, now); !would {\n		return d\n	}\n", new: "",
		tests: "TestAdmitBothOrNone",
	}, {
		name: "queue helps itself from the allowance", file: "inforce.go",
		old: "	case s.Queued: // until", new: "	case s.Queued && s.Remaining < 0: // until",
		tests: "TestQueuedWorkerDoesNotHelpItself",
	}, {
		name: "advance where nothing is far", file: "meter.go",
		old: "	if m.lines[byLease].len <= 1 && r != nil && r.id.Worker == m.self {\n		return 0\n	}\n", new: "",
		tests: "TestOwnWorkerNeverPassesTheBucket",
	}, {
		name: "allowance where nothing is far", file: "ledger.go",
		old: "if l.ownerOf(c) != l.self || l.ring == 0 {", new: "if true {",
		tests: "TestOwnWorkerHasNoAllowance",
	}, {
		name: "no advance for the owner's worker among others", file: "meter.go",
		old: "if m.lines[byLease].len <= 1 && r != nil", new: "if r != nil",
		tests: "TestOwnWorkerIsNotStarvedByOthers",
	}, {
		name: "halves instead of shares", file: "division.go",
		old: "m.wants > all && m.wants > r.want {", new: "m.wants < 0 {",
		tests: "TestAlikeWorkersAreServedAlike",
	}, {
		name: "half is kept for nobody", file: "division.go",
		old: "	if m.wants == r.want {\n", new: "	if m.wants < 0 {\n",
		tests: "TestWhoAloneWantsHasItOnceInFull",
	}, {
		name: "who alone wants has all of it twice", file: "division.go",
		old: "min(r.want/2-own, free)", new: "min(r.want-own, free)",
		tests: "TestWhoAloneWantsHasItOnceInFull",
	}, {
		name: "exhausted helps itself from the allowance", file: "inforce.go",
		old: "	case s.Exhausted: // as", new: "	case s.Exhausted && s.Turn < 0: // as",
		tests: "TestExhaustedWorkerDoesNotHelpItself",
	}, {
		name: "expired promises bar the living", file: "meter.go",
		old: "room-m.live())", new: "room-m.reserved)",
		tests: "TestExpiredPromisesLeaveTheLivingTheirs",
	}, {
		name: "forgotten reporter credited twice", file: "owner.go",
		old: "	r.lapsed = min(u.Total.Refunded-u.Base.Refunded, u.Base.Used())\n", new: "",
		tests: "TestForgottenReporterIsNotCreditedTwice",
	}, {
		name: "goodbye promised again", file: "meter.go",
		old: "r.reserved, r.high, r.low = 0, grant{}, grant{}", new: "r.reserved = 0",
		tests: "TestGoodbyeIsFinal",
	}, {
		name: "unused turn kept", file: "inforce.go",
		old: "need == 0 && !(rep.late && rep.holds()):", new: "need == 0:",
		tests: "TestUnusedTurnIsGivenBackAtOnce",
	}, {
		name: "budget to the first limit", file: "reporting.go",
		old: "	if c.rep.heldBack > 0 {", new: "	if c.rep.heldBack < 0 {",
		tests: "TestBudgetIsShared",
	}, {
		name: "pushes to the first limit", file: "push.go",
		old: "	if m.heldBack > 0 {", new: "	if m.heldBack < 0 {",
		tests: "TestPushBudgetIsShared",
	}, {
		name: "ban shaken off by a move", file: "handover.go",
		old: "now+h.SoftLeft, now+h.BanLeft", new: "now+h.SoftLeft, now",
		tests: "TestHandOverKeepsBanAndWantedUse",
	}, {
		name: "wanted use forgotten in a move", file: "handover.go",
		old: "	m.asked.goOn(h.Wanted, now)\n", new: "",
		tests: "TestHandOverKeepsBanAndWantedUse",
	}, {
		name: "handed over before the old ring is seen off", file: "voters.go",
		old: "	return i >= 0 && t.closing[i].over\n", new: "	return i >= 0\n",
		tests: "TestNothingIsHandedOverWhileASuccessorCouldAct",
	}, {
		name: "restarted voter counts at once", file: "voters.go",
		old: "	if !h.noted || a.VoterEpoch > h.life {", new: "	if !h.noted {",
		tests: "TestAVoterThatWasStartedAgainCountsAnew",
	}, {
		name: "silent though it owns", file: "voters.go",
		old: "	chased := t.chased(h)\n	switch {\n", new: "	chased := t.chased(h)\n	use = false\n	switch {\n",
		tests: "TestTheFirstKeyIsConfirmedWithinARoundTrip TestSeeds",
	}, {
		name: "silent owner not woken by a report", file: "owner.go",
		old: "			o.use(now)\n		}\n		return nil, NotOwner\n", new: "		}\n		return nil, NotOwner\n",
		tests: "TestTheFirstKeyIsConfirmedWithinARoundTrip TestSeeds",
	}, {
		name: "silent owner not woken by a hand-over", file: "handover.go",
		old: "	o.use(now) // whoever", new: "	// whoever",
		tests: "TestAHandOverWakesASilentOwner",
	}, {
		name: "silent before it is noted", file: "voters.go",
		old: "	case !noted && !h.knows():\n", new: "	case !noted && !h.knows() && use:\n",
		tests: "TestASilentMemberIsNotedByAMajority",
	}, {
		name: "never silent", file: "voters.go",
		old: "	case use:\n		return h.sent + t.confirm/2\n", new: "	case use || noted:\n		return h.sent + t.confirm/2\n",
		tests: "TestAMemberThatOwnsNothingAsksNobody sim.TestDeliveryAndCost",
	}, {
		name: "a confirmation outlasts silence", file: "voters.go",
		old: "asked[len(asked)-majority] + t.confirm; until", new: "asked[len(asked)-majority] + 50*t.confirm; until",
		tests: "TestConfirmationCountsFromTheAsking TestNeverTwoOwnersInRandomElections TestTheFirstKeyIsConfirmedWithinARoundTrip",
	}, {
		name: "restarted voter not asked by the silent", file: "voters.go",
		old: "			h.ever = h.ever && h.knows()\n", new: "",
		tests: "TestARestartedVoterIsAskedAtOnce",
	}, {
		name: "early reports in each round trip", file: "reporter.go",
		old: "	return rep.earlyFrom\n", new: "	return rep.sentAt + int64(r.cfg.SyncMin)/4\n",
		tests: "TestEarlyReportsKeepThePace",
	}, {
		name: "a goodbye that is outdone", file: "reporter.go",
		old: " && more.dead.Compare(c.rep.held) < 0 {", new: " {",
		tests: "TestGoodbyeThatIsRepeatedEnds",
	}, {
		name: "a promise in a lost answer is kept for ever", file: "reporter.go",
		old: "	rep.missed = rep.missed || rep.open && !rep.leaves\n", new: "",
		tests: "TestNothingStaysReservedForWhatNeverCame",
	}, {
		name: "a promise in a lost push is kept for ever", file: "inforce.go",
		old: "	rep.missed = rep.missed || s.Queued\n", new: "",
		tests: "TestNothingStaysReservedForWhatNeverCame",
	}, {
		name: "what is less than a unit and finds no room is lost", file: "level.go",
		old: "		l.spill += rem\n", new: "",
		tests: "TestABusyBucketPaysForTheExpired TestLevelCarriesWhatFindsNoRoom",
	}, {
		name: "what found no room before pays, too", file: "meter.go",
		old: "		m.level.spill = 0 //", new: "		//",
		tests: "TestOnlyLaterOverflowPays",
	}, {
		name: "promises outlive the burst they were made under", file: "owner.go",
		old: "	m.cut()\n", new: "",
		tests: "TestSmallerBurstCutsPromises",
	}, {
		name: "the same, handed over", file: "handover.go",
		old: "		m.cut()\n", new: "",
		tests: "TestSmallerBurstCutsPromises",
	}, {
		name: "a promise never told is kept for ever", file: "meter.go",
		old: "			r.high.mark = before\n", new: "			_ = before\n",
		tests: "TestPromiseThatWasNeverToldEnds",
	},
}
