package qos

import (
	"math"
	"slices"
)

// # Who may act as owner
//
// The coordinator proposes rings; it does not say when they count. During a change some workers know the old ring and some the new one, and
// a partition can keep it so for hours: a key that moved would have two owners, both refilling at R. So an owner acts only while
// a majority of its ring's voters has confirmed its epoch within the last F, and a new owner first makes sure that no earlier ring
// can find a majority any more:
//
//	Voter   answers with the newest epoch it knows, and so never again with an older one.
//	Tenure  asks the voters of its own ring (am I current?) and of those it replaces (are they over?).
//
// When so many voters of a replaced ring have answered with a later epoch that the rest is no majority, the last confirmation its owners can
// have got is no newer than that answer; F later they all have stopped. F is counted by the old owner from when it asked and by
// the new one from when it heard, so no two clocks are compared, only their rates: the new owner waits F/32 longer.
//
// Confirmation by the coordinator, or by a majority, was tried and is wrong: the two need not intersect, and with the coordinator on the minority's side
// a key had two owners for as long as the partition lasted.
//
// A worker id can have two incarnations that live: one was stopped, its lease ran out, it was started elsewhere, and it wakes up. A voter answers
// only the newest incarnation of an id that has asked it, and its word counts from F after it has noted the incarnation that asks: until then the one
// before may still be acting on what it was told. A voter that was started again has forgotten what it noted, so that what it says counts anew from F
// after it has noted the incarnation again.
//
// A worker that owns nothing in use needs no confirmation and asks nobody: the first report for a limit of its own finds it unconfirmed, is refused, and makes it
// ask; a round trip later it may act, before the report is sent again. For that the voters must have noted its incarnation long before, so a member does
// ask when it learns of a ring, until a majority has noted it and the rings before are over. Asked all the time by everybody, as was tried, a hundred
// workers spend 14,000 messages a second on their voters whatever they do.
//
// It rests on one promise from outside: the coordinator never shows a worker an older ring than it has shown that worker before, not
// across a restart either (an etcd read is linearizable; a file and the copy on disk do not go back).

// An Ask is sent by a Tenure to a voter.
type Ask struct {
	Worker      WorkerID
	Incarnation uint64 // the worker's epoch
	Epoch       uint64 // the ring the owner acts in
	Stamp       int64  // the owner's clock, ns; echoed
}

// An Answer is a voter's reply.
type Answer struct {
	Voter       WorkerID
	VoterEpoch  uint64 // the voter's own incarnation: a later one has forgotten whom the ones before have noted
	Incarnation uint64 // of the worker that asked: the newest that this voter knows
	Epoch       uint64 // the newest ring the voter knows; 0 while it is silent: it has noted the incarnation, no more
	Stamp       int64  // of the Ask
}

// A Voter is the answering side of one worker incarnation.
type Voter struct {
	id    WorkerID
	life  uint64              // the worker's epoch
	epoch uint64              // newest ring known; never falls
	from  int64               // silent before, ns
	seen  map[WorkerID]uint64 // newest incarnation that has asked; at most MaxMembers
}

// NewVoter returns the voter of a worker incarnation that starts at now (ns) and knows no ring yet; epoch is the worker's. It is silent for confirm (F, ns): its
// earlier incarnation may have answered with an epoch that this one has yet to learn, and the owner that got that answer may act on it so long.
func NewVoter(id WorkerID, epoch uint64, now, confirm int64) *Voter {
	return &Voter{id: id, life: epoch, from: now + allowance(confirm), seen: map[WorkerID]uint64{}}
}

// Learn takes note of a ring epoch. Older ones are ignored.
func (v *Voter) Learn(epoch uint64) { v.epoch = max(v.epoch, epoch) }

// Epoch returns the newest epoch known.
func (v *Voter) Epoch() uint64 { return v.epoch }

// Answer replies to an Ask, or reports false: it never answers an incarnation older than one that has asked it.
func (v *Voter) Answer(now int64, a Ask) (Answer, bool) {
	seen, known := v.seen[a.Worker]
	if a.Incarnation < seen || !known && len(v.seen) >= MaxMembers {
		return Answer{}, false
	}
	v.seen[a.Worker] = a.Incarnation
	answer := Answer{Voter: v.id, VoterEpoch: v.life, Incarnation: a.Incarnation, Stamp: a.Stamp}
	if now >= v.from {
		answer.Epoch = v.epoch
	}
	return answer, true
}

// allowance is F as somebody with another clock must wait it: clocks may differ in rate by 1.5 % either way.
func allowance(confirm int64) int64 { return confirm + confirm/32 }

// A Tenure is the asking side: it knows whether this worker incarnation may act as owner in the newest ring it has learned.
type Tenure struct {
	self    WorkerID
	epoch   uint64 // of this incarnation
	confirm int64  // F, ns
	ring    *Ring
	known   []*Ring   // earlier rings that the present one replaces and this worker has seen
	heard   []heard   // one for each voter of the ring and of those it replaces, sorted
	closing []closing // one for each replaced ring, newest first
	newest  uint64    // highest epoch any voter has answered
	now     int64     // newest seen, ns
}

// heard is the last word of one voter.
type heard struct {
	voter WorkerID
	epoch uint64 // never falls
	asked int64  // stamp of the newest Ask answered with that epoch
	sent  int64  // when it was last asked
	ever  bool   // whether it was
	votes bool   // in the present ring
	noted bool   // it has noted this incarnation, and answers none before it
	since int64  // when that was heard
	life  uint64 // the incarnation of the voter that has
	met   uint64 // the newest incarnation of the voter that this worker has had a connection with
}

// knows reports whether the voter has noted this incarnation, as far as can be told without asking.
func (h *heard) knows() bool { return h.noted && h.life >= h.met }

// closing is a replaced ring on its way out.
type closing struct {
	Voting
	over  bool
	since int64 // when it had lost its majority, as heard here; meaningless before over
}

// NewTenure returns the tenure of a worker incarnation. epoch is the worker's, confirm is F in ns, the same on all workers.
func NewTenure(self WorkerID, epoch uint64, confirm int64) *Tenure {
	return &Tenure{self: self, epoch: epoch, confirm: confirm}
}

// Ask is the question to put at now to each voter that Poll names.
func (t *Tenure) Ask(now int64) Ask {
	return Ask{Worker: t.self, Incarnation: t.epoch, Epoch: t.ring.epoch, Stamp: now}
}

// Learn adopts a newer ring and reports whether it was newer.
func (t *Tenure) Learn(r *Ring) bool {
	if t.ring != nil && r.epoch <= t.ring.epoch {
		return false
	}
	if t.ring != nil {
		t.known = append(t.known, t.ring)
	}
	t.ring = r
	t.known = slices.DeleteFunc(t.known, func(k *Ring) bool { return !r.replaces(k.epoch) })
	old := t.closing
	t.closing = nil
	for _, v := range r.before {
		c := closing{Voting: v}
		if i := slices.IndexFunc(old, func(o closing) bool { return o.Epoch == v.Epoch }); i >= 0 {
			c = old[i]
		}
		t.closing = append(t.closing, c)
	}
	t.seat(r)
	return true
}

// seat makes the list of voters that matter now, keeping what was heard from them.
func (t *Tenure) seat(r *Ring) {
	ids := slices.Clone(r.Voters())
	for _, v := range r.before {
		ids = append(ids, v.Voters...)
	}
	slices.Sort(ids)
	old := t.heard
	t.heard = nil
	for _, id := range slices.Compact(ids) {
		h := heard{voter: id}
		if i := slices.IndexFunc(old, func(o heard) bool { return o.voter == id }); i >= 0 {
			h = old[i]
			h.ever = false // ask at once: the ring is another
		}
		h.votes = slices.Contains(r.Voters(), id)
		t.heard = append(t.heard, h)
	}
}

// Ring returns the newest ring learned, or nil.
func (t *Tenure) Ring() *Ring { return t.ring }

// Newest returns the highest epoch that any voter has answered. If it is above the ring's, the coordinator has news.
func (t *Tenure) Newest() uint64 { return t.newest }

// Poll appends to dst the voters to send an Ask to at now. use says whether a limit that this worker owns is in use (Owner.InUse). If so, each is asked again
// F/2 after an ask that it has confirmed, so that the next has F/2 to come through, and F/5 after one that it has not. If not, those are
// asked whose word is needed to be confirmed within a round trip later, and then nobody: see due.
func (t *Tenure) Poll(now int64, use bool, dst []WorkerID) []WorkerID {
	t.now = max(t.now, now)
	noted := t.notedByMajority()
	for i := range t.heard {
		h := &t.heard[i]
		if now < t.due(h, use, noted) {
			continue
		}
		h.sent, h.ever = now, true
		dst = append(dst, h.voter)
	}
	return dst
}

// Next returns when Poll has somebody to ask, or a word begins to count by time alone, so that the owner has to be told: math.MaxInt64 if that is never.
func (t *Tenure) Next(use bool) int64 {
	at, noted := int64(math.MaxInt64), t.notedByMajority()
	for i := range t.heard {
		h := &t.heard[i]
		at = min(at, t.due(h, use, noted))
		if h.noted && !t.counts(h) {
			at = min(at, h.since+allowance(t.confirm))
		}
	}
	for i := range t.closing {
		if c := &t.closing[i]; c.over && !c.past(t.now, t.confirm) {
			at = min(at, c.since+allowance(t.confirm))
		}
	}
	return at
}

// due is when to ask a voter next. noted says that a majority has noted this incarnation.
func (t *Tenure) due(h *heard, use, noted bool) int64 {
	chased := t.chased(h)
	switch {
	case !h.votes && !chased:
		return math.MaxInt64
	case !h.ever: // once in each ring, by every member
		return t.now
	case use && (chased || h.epoch != t.ring.epoch || h.asked < h.sent):
		return h.sent + t.confirm/5
	case use:
		return h.sent + t.confirm/2
	case chased:
		return h.sent + t.confirm
	case !noted && !h.knows():
		return h.sent + t.confirm/5
	}
	return math.MaxInt64
}

// chased reports whether a voter's later epoch is needed to see a replaced ring off.
func (t *Tenure) chased(h *heard) bool {
	return slices.ContainsFunc(t.closing, func(c closing) bool {
		return !c.over && h.epoch <= c.Epoch && slices.Contains(c.Voters, h.voter)
	})
}

// notedByMajority reports whether a majority of the ring's voters has noted this incarnation.
func (t *Tenure) notedByMajority() bool {
	if t.ring == nil {
		return false
	}
	n := 0
	for i := range t.heard {
		if h := &t.heard[i]; h.votes && h.knows() {
			n++
		}
	}
	return n >= t.ring.Voting().majority()
}

// Met says that a voter can be reached, as which incarnation. One that was started again has forgotten whom it had noted, and is asked at once: a worker that asks
// nobody would learn of it with its first key, and wait F.
func (t *Tenure) Met(voter WorkerID, epoch uint64) {
	for i := range t.heard {
		if h := &t.heard[i]; h.voter == voter && epoch > h.met {
			h.met = epoch
			h.ever = h.ever && h.knows()
		}
	}
}

// Chase appends to dst the voters to send an Ask to at now beside those of Poll, because there is something to hand over: those of replaced rings that
// have not answered with a later epoch, again after F/50. The keys that move are closed meanwhile.
func (t *Tenure) Chase(now int64, dst []WorkerID) []WorkerID {
	t.now = max(t.now, now)
	for i := range t.heard {
		h := &t.heard[i]
		if h.ever && now-h.sent < t.confirm/50 || !t.chased(h) {
			continue
		}
		h.sent, h.ever = now, true
		dst = append(dst, h.voter)
	}
	return dst
}

// Answered takes an Answer that arrived at now. One that nobody asked for, is from the future or older than what was heard changes nothing.
func (t *Tenure) Answered(now int64, a Answer) {
	if t.ring == nil || a.Stamp > now || a.Incarnation != t.epoch {
		return
	}
	i := slices.IndexFunc(t.heard, func(h heard) bool { return h.voter == a.Voter })
	if i < 0 {
		return
	}
	h := &t.heard[i]
	if h.noted && a.VoterEpoch < h.life {
		return
	}
	t.now = max(t.now, now)
	if !h.noted || a.VoterEpoch > h.life {
		h.noted, h.since, h.life = true, now, a.VoterEpoch
	}
	if a.Epoch == 0 || a.Epoch < h.epoch {
		return
	}
	if a.Epoch > h.epoch {
		h.epoch, h.asked = a.Epoch, a.Stamp
	}
	h.asked = max(h.asked, a.Stamp)
	t.newest = max(t.newest, a.Epoch)
	t.close(now)
}

// close marks the replaced rings that have lost their majority by now.
func (t *Tenure) close(now int64) {
	for i := range t.closing {
		c := &t.closing[i]
		if c.over {
			continue
		}
		gone := 0
		for _, h := range t.heard {
			if h.epoch > c.Epoch && slices.Contains(c.Voters, h.voter) {
				gone++
			}
		}
		if gone >= c.lost() {
			c.over, c.since = true, now
		}
	}
}

// Confirmed reports whether a majority of the ring's voters has confirmed its epoch within the last F.
func (t *Tenure) Confirmed(now int64) bool {
	t.now = max(t.now, now)
	return now < t.Until()
}

// Until returns when the confirmation runs out (ns), if no voter answers any more: F after the newest ask that, with all newer ones, a majority
// has answered with the ring's epoch. math.MinInt64 while no majority has, or that is over. A voter counts from F after it has noted this incarnation.
func (t *Tenure) Until() int64 {
	if t.ring == nil {
		return math.MinInt64
	}
	var room [MaxVoters]int64
	asked := room[:0]
	for i := range t.heard {
		if h := &t.heard[i]; h.votes && h.epoch == t.ring.epoch && t.counts(h) {
			asked = append(asked, h.asked)
		}
	}
	majority := t.ring.Voting().majority()
	if len(asked) < majority {
		return math.MinInt64
	}
	slices.Sort(asked)
	if until := asked[len(asked)-majority] + t.confirm; until > t.now {
		return until
	}
	return math.MinInt64
}

// counts reports whether no incarnation before this one can still act on a voter's word.
func (t *Tenure) counts(h *heard) bool { return h.noted && t.now-h.since >= allowance(t.confirm) }

// alone reports whether a majority of a ring's voters has noted this incarnation F ago: none before it can act in that ring any more.
func (t *Tenure) alone(now int64, v Voting) bool {
	n, present := 0, v.Epoch == t.ring.epoch
	t.now = max(t.now, now)
	for i := range t.heard {
		h := &t.heard[i]
		if t.counts(h) && (present && h.votes || !present && slices.Contains(v.Voters, h.voter)) {
			n++
		}
	}
	return n >= v.majority()
}

// Ready reports whether the voters, as far as this worker knows, would confirm it at once: a majority has noted this incarnation F ago.
func (t *Tenure) Ready(now int64) bool {
	return t.ring != nil && t.notedByMajority() && t.alone(now, t.ring.Voting())
}

// SeenOff reports whether so many voters of a replaced ring have answered this incarnation with a later epoch that the rest is no majority. Before, an owner
// hands nothing over: the new owner acts on it at once, and a later incarnation of this worker, that nobody here has heard of, could still be confirmed
// in the old ring. The voters that have answered this incarnation have not noted a later one, and will answer it with the later epoch.
func (t *Tenure) SeenOff(epoch uint64) bool {
	i := slices.IndexFunc(t.closing, func(c closing) bool { return c.Epoch == epoch })
	return i >= 0 && t.closing[i].over
}

// Open reports whether nobody else can act in this ring or any that it replaces: not an earlier incarnation of this worker, not the
// owners of the replaced rings.
func (t *Tenure) Open(now int64) bool {
	return t.ring != nil && t.alone(now, t.ring.Voting()) && !slices.ContainsFunc(t.closing, func(c closing) bool { return !c.past(now, t.confirm) })
}

func (c closing) past(now, confirm int64) bool {
	return c.over && now-c.since >= allowance(confirm)
}

// MayAct reports whether this worker may at now act as owner of the limit at p. Ask anew at every act: a worker that was stopped
// may wake up in another time. (An Owner is told by Confirm and Settle what amounts to the same.)
//
// since is the epoch of the ring in which the state that this worker has for p was last acted upon: by itself, or by the
// owner that handed it over and stopped. 0 is no state. Rings up to since need not be seen off for this key, for who acts in a ring has already seen off those before it; nor
// those in which this very worker owned p.
func (t *Tenure) MayAct(now int64, p Place, since uint64) bool {
	if !t.Confirmed(now) || !t.owns(t.ring, p) || !t.alone(now, t.ring.Voting()) {
		return false
	}
	for _, c := range t.closing {
		if c.Epoch > since && !c.past(now, t.confirm) && !(t.owned(c.Epoch, p) && t.alone(now, c.Voting)) {
			return false
		}
	}
	return true
}

func (t *Tenure) owns(r *Ring, p Place) bool { return r.members[r.Owner(p)] == t.self }

// owned reports whether this worker was p's owner in an earlier ring, as far as it has seen that ring.
func (t *Tenure) owned(epoch uint64, p Place) bool {
	i := slices.IndexFunc(t.known, func(r *Ring) bool { return r.epoch == epoch })
	return i >= 0 && t.owns(t.known[i], p)
}

// Force takes the replaced rings for over, at once: the operator says that most of their voters are dead. If one of them lives and
// confirms, a key can have two owners until it learns of this ring, each granting up to R.
func (t *Tenure) Force(now int64) {
	for i := range t.closing {
		t.closing[i].over, t.closing[i].since = true, now-allowance(t.confirm)
	}
}
