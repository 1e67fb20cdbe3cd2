package main

// schedulers is the list for the scheduler.
var schedulers = []mutant{
	{
		room: "sched", name: "credit of who was idle", file: "seat.go",
		old: "s.t.lift(r.start() - s.t.cfg.Load().chunk)", new: "s.t.lift(r.start() - 100*s.t.cfg.Load().chunk)",
		tests: "TestReturningEarnsNothing sim.TestReachIdle",
	}, {
		room: "sched", name: "credit of who was idle, no rate", file: "seat.go",
		old: "least := r.v - s.t.cfg.Load().chunk", new: "least := r.v - 1000*s.t.cfg.Load().chunk",
		tests: "TestReturningEarnsNothing",
	}, {
		room: "sched", name: "credit of who is bound to a ring", file: "ring.go",
		old: "s.t.charge(f.cost, r.served()-cfg.lag)", new: "s.t.charge(f.cost, r.served()-1000*cfg.lag)",
		tests: "TestRingBoundEarnsNothing",
	}, {
		room: "sched", name: "debt forgiven", file: "seat.go",
		old: "			s.t.lift(r.start() - s.t.cfg.Load().chunk)", new: "			s.t.vt.Store(r.start() - s.t.cfg.Load().chunk)",
		tests: "TestDebtStays",
	}, {
		room: "sched", name: "nothing given back", file: "ring.go",
		old: "	r.settle(f, s, f.payload-sent)\n	s.observe", new: "	r.settle(f, s, 0)\n	s.observe",
		tests: "TestShortSendsGiveBack TestSeeds",
	}, {
		room: "sched", name: "given back twice", file: "bucket.go",
		old: "b.spent.Add(-back)", new: "b.spent.Add(-2 * back)",
		tests: "TestBucketAgainstEveryInterval TestSeeds",
	}, {
		room: "sched", name: "vt not given back", file: "reserve.go",
		old: "	if f.cost != 0 && back != 0 {", new: "	if f.cost != 0 && back < 0 {",
		tests: "TestShortSendsGiveBack",
	}, {
		room: "sched", name: "refunds from before on top of the burst", file: "bucket.go",
		old: "full := granted + cut - burst + held;", new: "full := granted + cut - burst + held*0;",
		tests: "TestBucketAgainstEveryInterval",
	}, {
		room: "sched", name: "fraction of a byte granted early", file: "bucket.go",
		old: "full := granted + cut - burst", new: "full := granted + cut*0 - burst",
		tests: "TestBucketAgainstEveryInterval",
	}, {
		room: "sched", name: "woken too early", file: "wheel.go",
		old: "(at+1<<tickBits-1)>>tickBits", new: "at>>tickBits",
		tests: "TestWheelAgainstAList",
	}, {
		room: "sched", name: "woken a period late", file: "seat.go",
		old: "	r.wheel.add(s.id, min(at, r.lateAt(s)))", new: "	r.wheel.add(s.id, min(at+period, r.lateAt(s)))",
		tests: "sim.TestReachShares",
	}, {
		room: "sched", name: "never woken", file: "sleep.go",
		old: "	wake := r.wheel.wake()\n", new: "	wake := int64(never)\n",
		tests: "TestParkKeepsPlace TestSeeds",
	}, {
		room: "sched", name: "sleepers not told of a faster clock", file: "worker.go",
		old: "	if faster || reframed {", new: "	if faster && reframed {",
		tests: "TestFasterClockWakesSleepers",
	}, {
		room: "sched", name: "waiting not filed anew", file: "ring.go",
		old: "	case r.plan.pace > r.filed || r.plan.period != r.fperiod:", new: "	case r.plan.period != r.fperiod:",
		tests: "TestFasterClockWakesSleepers",
	}, {
		room: "sched", name: "a virtual time for each ring", file: "ring.go",
		old: "		vt := s.t.charge(f.cost, r.served()-cfg.lag)\n", new: "		if r.beacon != &r.w.rings[0] {\n			f.cost = 0\n		}\n		vt := s.t.charge(f.cost, r.served()-cfg.lag)\n",
		tests: "TestSharedVirtualTime sim.TestReachShares",
	}, {
		room: "sched", name: "who may not yet, may", file: "ring.go",
		old: "vt-r.virtual() > 0 {", new: "vt-r.virtual() > 1<<50 {",
		tests: "sim.TestReachShares",
	}, {
		room: "sched", name: "V never reaches a grown charge", file: "reserve.go",
		old: "	if to > f.cost && r.plan.mode == paced {", new: "	if to > f.cost && r.plan.mode == free {",
		tests: "TestChargeMayGrow",
	}, {
		room: "sched", name: "nothing given away", file: "worker.go",
		old: "		by = w.boost * gainPart / 10 * grow >> 16", new: "		by = grow * 0",
		tests: "sim.TestReachUnused",
	}, {
		room: "sched", name: "all of a weight for who needs little", file: "worker.go",
		old: "	t.part = max(t.part+(part-t.part)*elapsed/(2*period), 1)", new: "	t.part = partOne",
		tests: "sim.TestReachUnused",
	}, {
		room: "sched", name: "starved for what it got elsewhere", file: "seat.go",
		old: "		if most := r.v + s.t.cfg.Load().lag; key-most > 0 {", new: "		if most := r.v + s.t.cfg.Load().lag; key-most > 1<<60 {",
		tests: "TestWhatIsServedElsewhereStarvesNobody",
	}, {
		room: "sched", name: "no turns among responses", file: "flow.go",
		old: "	if before {\n", new: "	if before || f.took > 0 {\n",
		tests: "TestResponsesOfOneTenantTakeTurns",
	}, {
		room: "sched", name: "place lost by parking", file: "ring.go",
		old: "	r.enqueue(f, s, int32(slot), true)\n", new: "	r.enqueue(f, s, int32(slot), false)\n",
		tests: "TestParkKeepsPlace",
	}, {
		room: "sched", name: "depth by pieces, not bytes", file: "ring.go",
		old: "	if r.flying > 0 && r.flying+held > most {", new: "	if r.flying > 0 && r.flying+r.w.cfg.Chunk > most {",
		tests: "TestDepthCountsBytes",
	}, {
		room: "sched", name: "all of the depth for one", file: "ring.go",
		old: "&& r.heap.len() > 1 &&", new: "&& r.heap.len() > 1000 &&",
		tests: "TestOneTenantLeavesDepthToOthers",
	}, {
		room: "sched", name: "shed for its own limit", file: "admit.go",
		old: "s.codel.shed(r.now-f.pushed-own,", new: "s.codel.shed(r.now-f.pushed-own*0,",
		tests: "TestShedOnlyWhatTheLimitDidNotCause",
	}, {
		room: "sched", name: "dispatched after the deadline", file: "admit.go",
		old: "	if cfg.Deadline > 0 && r.now-f.admitted > cfg.Deadline {", new: "	if cfg.Deadline < 0 {",
		tests: "TestExpiredAtDequeue TestSeeds",
	}, {
		room: "sched", name: "late only when its tenant wakes", file: "admit.go",
		old: "	if deadline == 0 || s.first == none {", new: "	if deadline == 0 || s.first == none || s.state == seatParked {",
		tests: "TestExpiredWhileItsTenantSleeps",
	}, {
		room: "sched", name: "blocked requests are late", file: "ring.go",
		old: "	r.dropFresh(f, s)\n	f.state = flowBlocked", new: "	f.state = flowBlocked",
		tests: "TestBlockedRequestsAreNotLate TestSeeds",
	}, {
		room: "sched", name: "queue leaks what is dropped", file: "ring.go",
		old: "		r.dequeue(f, s)\n		r.dispatched(f, s)\n		r.fall(s)", new: "		r.dequeue(f, s)\n		f.inRequests = false\n		r.dispatched(f, s)\n		r.fall(s)",
		tests: "TestDropEndsAnything",
	}, {
		room: "sched", name: "bounds of each ring", file: "admit.go",
		old: "if t.queued.Add(1) > int64(cfg.QueueRequests) {", new: "if t.queued.Add(1); s.stats.Queued >= int64(cfg.QueueRequests) {",
		tests: "TestAdmitBounds",
	}, {
		room: "sched", name: "small responses for nothing", file: "ring.go",
		old: "			held += ResponseCost\n", new: "			held += 0\n",
		tests: "TestDropEndsAnything TestSeeds",
	}, {
		room: "sched", name: "in flight is backlogged", file: "ring.go",
		old: "	if n >= f.rest {", new: "	if n >= f.rest+1<<40 {",
		tests: "TestReturningEarnsNothing",
	}, {
		room: "sched", name: "claim of who is passed over", file: "ring.go",
		old: "			if r.plan.mode == free {\n				r.forfeit(s)", new: "			if r.plan.mode == solo {\n				r.forfeit(s)",
		tests: "TestPassedOverEarnsNothing",
	}, {
		room: "sched", name: "forgiven by V, not by service", file: "ring.go",
		old: "r.served()-cfg.lag)", new: "r.virtual()-cfg.lag)",
		tests: "sim.TestRingsTooSlow",
	}, {
		room: "sched", name: "newcomers start beyond the service", file: "seat.go",
		old: "		return r.served()\n", new: "		return r.virtual()\n",
		tests: "TestNewcomersStartWhereTheServiceIs",
	}, {
		room: "sched", name: "in step for good", file: "tenant.go",
		old: "	return mulDiv(t.cfg.Load().chunk, int64(uint32(t.id)*2654435769), 1<<32)", new: "	return 0",
		tests: "TestWhoComesTogetherIsSpread",
	}, {
		room: "sched", name: "the bucket by chance", file: "worker.go",
		old: "b.deadline.Load()-deadline < 0 {", new: "b.deadline.Load()-deadline < -1<<60 {",
		tests: "TestTheBucketGoesToTheEarliestDeadline",
	}, {
		room: "sched", name: "claims that outlive their reason", file: "sleep.go",
		old: "	case r.heap.len() == 0: // what it has waited for is gone\n		r.unclaim()", new: "	case r.heap.len() == 0:",
		tests: "TestTheBucketGoesToTheEarliestDeadline",
	}, {
		room: "sched", name: "V crawls", file: "worker.go",
		old: "(boostOne/2-w.boost)*gainPart/10", new: "(boostOne/2-w.boost)*0",
		tests: "TestVDoesNotCrawlForLong",
	}, {
		room: "sched", name: "a burst counts in full", file: "worker.go",
		old: "part = max(part, min(max(p.at-t.since.Load(), 0), elapsed)*partOne/elapsed)", new: "part = partOne",
		tests: "TestABurstThatHasJustBegunSaysLittle",
	}, {
		room: "sched", name: "who is furthest goes first", file: "seat.go",
		old: "		return s.t.vt.Load() + s.t.cfg.Load().cost(r.flows[s.head].want)", new: "		return -s.t.vt.Load()",
		tests: "TestSeeds",
	}, {
		room: "sched", name: "debts of the worker forgiven at once", file: "ring.go",
		old: "s.t.charge(f.cost, r.served()-cfg.lag)", new: "s.t.charge(f.cost, r.served())",
		tests: "TestSeeds",
	}, {
		room: "sched", name: "whole chunks while V binds", file: "worker.go",
		old: "		p.piece = max(p.piece/pieces, LeastEstimate)", new: "		p.piece = max(p.piece, LeastEstimate)",
		tests: "TestPiecesWhileVBinds sim.TestReachDelay",
	}, {
		room: "sched", name: "pieces of who has no time to spare", file: "worker.go",
		old: "	if slept > 0 && p.mode == paced {", new: "	if slept >= 0 && p.mode == paced {",
		tests: "TestPiecesWhileVBinds",
	},
}
