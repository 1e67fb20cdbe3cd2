package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// However refusals come, no interval has more than the burst and what the rate allows; and who waits until when is told no earlier than there is one to take.
func TestPaceOfRefusals(t *testing.T) {
	p := pace{each: 1e9 / refusalRate}
	var told []int64
	for now := int64(1e9); now < 3e9; now += 7_000 { // 140,000 a second are asked for
		if due := p.when(1) <= now; due {
			p.take(now)
			told = append(told, now)
		} else if at := p.when(refusalBurst); at <= now || p.when(1) > p.when(2) {
			t.Fatalf("at %d none may be taken, one from %d on and all from %d", now, p.when(1), at)
		}
	}
	for i := range told {
		for j := i; j < len(told); j += 97 {
			if n, most := j-i+1, refusalBurst+int(float64(told[j]-told[i])*refusalRate/1e9)+1; n > most {
				t.Fatalf("%d refusals from %v to %v, at most %d", n, time.Duration(told[i]), time.Duration(told[j]), most)
			}
		}
	}
	if least := refusalBurst + 2*refusalRate - 200; len(told) < least {
		t.Errorf("%d refusals in 2 s, want at least %d", len(told), least)
	}
	if p.when(refusalBurst) > 1e12 {
		t.Error("not all after a pause")
	}
}

// rejecting is a story of tenants that are refused at once, in which nobody is told anything before told is set back.
func rejecting(t *testing.T, tenants []string, change ...func(*Config)) *story {
	var policies []qos.Policy
	var list []Tenant
	for _, id := range tenants {
		p := limited(id, 1, 1, 0, 0)
		p[0].OnLimit = qos.Reject
		policies, list = append(policies, p...), append(list, Tenant{ID: id})
	}
	s := tellOf(t, list, policies, change...)
	for _, id := range tenants {
		s.wantAnswers(s.asks(1, "/o1", id), map[string]int{"200": 1})
	}
	return s
}

func (s *story) seat(tenant string) *seat { return s.loop.seatOf(s.loop.worker.accounts[tenant]) }

// mute lets nothing be told from the seat for a while.
func (s *story) mute(seat *seat, d time.Duration) {
	seat.telling.full = s.now + int64(d) + refusalBurst*seat.telling.each
}

// A story: a tenant is refused so often that what is over the pace is told later, in the order in which it came. Others are told at once.
func TestTooManyRefusalsAreHeld(t *testing.T) {
	s := rejecting(t, []string{"loud", "quiet"})
	s.wantAnswers(s.asks(1, "/o1", "loud"), map[string]int{"429": 1})
	if n := s.loop.stats.RefusalsHeld; n != 0 {
		t.Errorf("%d are held, none is over the pace", n)
	}
	s.loop.telling.each = 10e6
	loud := s.seat("loud")
	loud.telling.each = 10e6
	s.mute(loud, 30*time.Millisecond)
	first := loud.telling.when(1)
	clients := s.asks(5, "/o1", "loud")
	s.wantAnswers(clients, map[string]int{})
	if n := s.count(stateHeld); n != 5 || s.loop.stats.RefusalsHeld != 5 {
		t.Errorf("%d are held, %d were, want 5", n, s.loop.stats.RefusalsHeld)
	}
	s.wantAnswers(s.asks(1, "/o1", "quiet"), map[string]int{"429": 1})
	var order []*simClient
	for range 40 {
		if s.turns(1, 2e6); s.now < first && len(order) > 0 {
			t.Errorf("%d are told before the first is due", len(order))
		}
		s.settle()
		n := len(order)
		for _, c := range clients {
			if c.hear() != "" && !slices.Contains(order, c) {
				order = append(order, c)
			}
		}
		if len(order) > n+1 {
			t.Errorf("%d are told within 4 ms", len(order)-n)
		}
	}
	if !slices.Equal(order, clients) {
		t.Errorf("%d are told, or in another order than they asked", len(order))
	}
	if n := s.count(stateHeld); n != 0 || loud.refused != emptyFifo {
		t.Errorf("%d are held after the time of all, %+v", n, loud.refused)
	}
}

// What a held client is told to wait, it has waited for a part already.
func TestRetryAfterCountsFromTheAnswer(t *testing.T) {
	s := rejecting(t, []string{"loud"})
	s.mute(s.seat("loud"), 3*time.Second)
	c := s.asks(1, "/o1", "loud")[0]
	held := &s.loop.conns[s.seat("loud").refused.first]
	held.refusal.wait = 4e9
	s.pass(2900 * time.Millisecond)
	s.wantAnswers([]*simClient{c}, map[string]int{})
	s.pass(200 * time.Millisecond)
	got := c.hear()
	if !strings.Contains(got, "\r\nRetry-After: 1\r\n") && !strings.Contains(got, "\r\nRetry-After: 2\r\n") {
		t.Errorf("want Retry-After of 1 s, or 2 by chance, in %q", got)
	}
}

// A client that gives up while its refusal is held leaves nothing behind, wherever it stood.
func TestAHeldClientMayGo(t *testing.T) {
	for _, gone := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {2, 1, 0}} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			s := rejecting(t, []string{"loud"})
			s.mute(s.seat("loud"), 100*time.Millisecond)
			clients := s.asks(3, "/o1", "loud")
			if n := s.count(stateHeld); n != 3 {
				t.Fatalf("%d are held, want 3", n)
			}
			for _, i := range gone {
				clients[i].hangUp()
				s.settle()
			}
			s.wantAnswers(clients, map[string]int{})
			s.pass(150 * time.Millisecond)
			if n := s.count(stateHeld); n != 0 || s.seat("loud").refused != emptyFifo || len(s.loop.telling.seats) != 0 {
				t.Errorf("%d are held, %+v in the queue, %d tenants", n, s.seat("loud").refused, len(s.loop.telling.seats))
			}
			want := map[string]int{}
			if n := 3 - len(gone); n > 0 {
				want["429"] = n
			}
			s.wantAnswers(clients, want)
		})
	}
}

// One turn tells a few, and of each tenant as many; the ring sleeps until a few are due.
func TestOneTurnTellsAFew(t *testing.T) {
	s := rejecting(t, []string{"a", "b"})
	s.mute(s.seat("a"), time.Hour)
	s.mute(s.seat("b"), time.Hour)
	s.asks(9, "/o1", "a")
	s.asks(5, "/o1", "b")
	held := func() [2]int { return [2]int{s.seat("a").refused.len, s.seat("b").refused.len} }
	s.seat("a").telling.full, s.seat("b").telling.full = 0, 0
	for _, want := range [][2]int{{7, 3}, {5, 1}, {2, 0}, {0, 0}} {
		if s.turns(1, 1); held() != want {
			t.Errorf("%v are held, want %v", held(), want)
		}
	}
	s.settle()

	s.mute(s.seat("a"), 50*time.Millisecond)
	s.asks(9, "/o1", "a")
	due := s.seat("a").telling.when(tellMost)
	if s.loop.lookAt = 1 << 62; s.loop.tellWake() != due || due <= s.now {
		t.Errorf("it wakes at %d, want %d, later than %d", s.loop.tellWake(), due, s.now)
	}
	if s.turns(1, due-1-s.now); held()[0] != 9-tellMost+1 {
		t.Errorf("%d are held a moment before %d are due", held()[0], tellMost)
	}
	s.turns(1, 1)
	if held()[0] != 9-tellMost || s.loop.tellWake() != due+tellMost*s.loop.telling.each {
		t.Errorf("%d are held, it wakes %d later, want %d and %d", held()[0], s.loop.tellWake()-due, 9-tellMost, tellMost*s.loop.telling.each)
	}
}

// All tenants together are told at the ring's pace.
func TestThePaceOfAll(t *testing.T) {
	s := rejecting(t, []string{"a", "b"})
	s.loop.telling.all = pace{each: 10e6, full: s.now + 50e6 + refusalBurst*10e6}
	clients := append(s.asks(4, "/o1", "a"), s.asks(4, "/o1", "b")...)
	s.wantAnswers(clients, map[string]int{})
	start, told := s.loop.telling.all.when(1), 0
	for told < len(clients) && s.now < start+1e9 {
		s.turns(1, 1e6)
		told = 0
		for _, c := range clients {
			told += strings.Count(c.hear(), "HTTP/1.1 429 ")
		}
		if most := int((s.now-start)/10e6) + 1; told > 0 && (s.now < start || told > most) {
			t.Errorf("%d are told %v after the first is due", told, time.Duration(s.now-start))
		}
	}
	if told < len(clients) {
		t.Errorf("%d of %d are told", told, len(clients))
	}
}

// Where too many of a tenant's wait, the next one's connection is reset.
func TestNotAllAreHeld(t *testing.T) {
	s := rejecting(t, []string{"loud", "quiet"})
	s.loop.telling.most = 2
	s.mute(s.seat("loud"), 50*time.Millisecond)
	clients := s.asks(3, "/o1", "loud")
	s.want(clients[2], "", true)
	s.wantClosed(ClosedRefused, 1)
	s.mute(s.seat("quiet"), 50*time.Millisecond)
	clients = append(clients[:2], s.asks(2, "/o1", "quiet")...)
	s.pass(60 * time.Millisecond)
	s.wantAnswers(clients, map[string]int{"429": 4})
	s.wantClosed(ClosedRefused, 1)
}

// A tenant that has all connections and is refused on each keeps nobody out: those whose refusals came last give their places to newcomers, and those who ask
// for nothing keep theirs.
func TestHeldConnectionsMakeRoom(t *testing.T) {
	s := rejecting(t, []string{"loud", "quiet"}, func(c *Config) { c.MaxConnections = 8 })
	for _, c := range s.clients {
		c.hangUp()
	}
	s.settle()
	s.loop.telling.keep = 2
	idle := s.client()
	s.mute(s.seat("loud"), time.Hour)
	var loud []*simClient
	for s.loop.stats.Closed[ClosedForRoom] == 0 && len(loud) <= 8 {
		loud = append(loud, s.asks(1, "/o1", "loud")...)
		s.pass(budgetLook)
	}
	first := s.loop.stats.Closed[ClosedForRoom]
	if n := uint64(len(loud)) - first; first == 0 || n < 2 {
		t.Fatalf("%d of %d connections are closed for room", first, len(loud))
	}
	s.want(idle, "", false)
	for range 10 {
		s.asks(1, "/o1", "loud")
		s.pass(budgetLook)
	}
	for _, c := range loud[:2] {
		s.want(c, "", false)
	}
	s.want(idle, "", false)
	newcomer := s.asks(1, "/o700", "quiet")
	s.pass(budgetLook)
	if got := newcomer[0].hear(); !strings.HasPrefix(got, "HTTP/1.1 ") {
		t.Errorf("another tenant's newcomer hears %q", got)
	}
}

// Who has no right to ask, or not for that, is told so at the same pace: strangers by themselves, a tenant's among its other refusals.
func TestTheUnknownAreHeldToo(t *testing.T) {
	s := rejecting(t, []string{"loud"})
	s.worker.accounts["loud"].seats[0].telling.full = 0
	s.mute(&s.loop.telling.strangers, 50*time.Millisecond)
	strangers := s.asks(3, "/o1", "nobody")
	s.wantAnswers(s.asks(1, "/o1", "loud"), map[string]int{"429": 1})
	s.wantAnswers(strangers, map[string]int{})
	s.pass(60 * time.Millisecond)
	s.wantAnswers(strangers, map[string]int{"401": 3})

	if err := s.worker.setTenants(must(NewTenants([]Tenant{{ID: "loud", Tokens: []Token{tokenOf("loud")}}}))); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.mute(s.seat("loud"), 50*time.Millisecond)
	loud := s.asks(2, "/o1", "loud")
	s.wantAnswers(loud, map[string]int{})
	s.pass(60 * time.Millisecond)
	s.wantAnswers(loud, map[string]int{"403": 2})
}

// While a refusal is held nothing more is read from its connection than fits its input: the client's own socket holds the rest.
func TestAHeldFloodStaysWithTheClient(t *testing.T) {
	s := rejecting(t, []string{"loud"})
	s.mute(s.seat("loud"), 50*time.Millisecond)
	c := s.client()
	request := getRequest("/o1", bearer("loud"))
	c.say(strings.Repeat(request, 4000))
	s.pass(40 * time.Millisecond)
	if len(c.unsent) == 0 {
		t.Fatal("the client's socket has taken all")
	}
	if n := s.loop.bufs.Held(); s.count(stateHeld) != 1 || n > 64 || s.loop.stats.RecvPauses == 0 {
		t.Errorf("%d are held with %d buffers after %d pauses", s.count(stateHeld), n, s.loop.stats.RecvPauses)
	}
	answers := 0
	for i := 0; i < 2000 && answers < 4000; i++ {
		c.flush()
		s.turns(10, 1e5)
		answers = strings.Count(c.hear(), "HTTP/1.1 429 ")
	}
	if answers != 4000 {
		t.Errorf("%d answers, want 4000", answers)
	}
}
