package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
)

// tellOf is a story about tenants with limits. Each authenticates with the token of its own id, and may read everything.
func tellOf(t *testing.T, tenants []Tenant, policies []qos.Policy, change ...func(*Config)) *story {
	t.Helper()
	return tellWith(t, newControl(t, 1, policies...), tenants, change...)
}

func tellWith(t *testing.T, control *control, tenants []Tenant, change ...func(*Config)) *story {
	t.Helper()
	for i := range tenants {
		tenants[i].Allow, tenants[i].Tokens = []string{"/"}, []Token{tokenOf(tenants[i].ID)}
	}
	s := tell(t, unix.AF_UNIX, append([]func(*Config){func(c *Config) {
		c.Tenants, c.Ledger, c.Rings, c.MaxConnections = must(NewTenants(tenants)), control.ledger, 1, 64
		c.OpenFiles, c.OpenFileValid = 64, time.Hour
	}}, change...)...)
	s.control = control
	control.news = s.loop.nudge
	s.pass(100 * time.Millisecond)
	return s
}

// asks connects n clients that each ask for path once.
func (s *story) asks(n int, path, tenant string) (clients []*simClient) {
	s.t.Helper()
	for range n {
		clients = append(clients, s.client())
	}
	for _, c := range clients {
		c.say(getRequest(path, bearer(tenant)))
	}
	s.settle()
	return clients
}

// answers counts what the clients have been told since the last time, by status.
func answers(clients []*simClient) map[string]int {
	n := map[string]int{}
	for _, c := range clients {
		if got := c.hear(); got != "" {
			n[strings.Fields(got)[1]]++
		}
		c.got = nil
	}
	return n
}

func (s *story) wantAnswers(clients []*simClient, want map[string]int) {
	s.t.Helper()
	if got := answers(clients); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("after %v: answers %v, want %v", time.Duration(s.now-1e9), got, want)
	}
}

func (s *story) wantUsed(tenant string, m qos.Metric, want int64) {
	s.t.Helper()
	if got := s.control.used(tenant, m); got != want {
		s.t.Errorf("after %v: %s/%v: %d are charged, want %d", time.Duration(s.now-1e9), tenant, m, got, want)
	}
}

// Ten a second and two at once: two are served at once, and the others at their pace; nobody is refused for what takes less
// than the deadline.
func TestRequestsAreServedAtTheirPace(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}}, limited("a", 10, 2, 0, 0))
	clients := s.asks(7, "/o700", "a")
	s.wantAnswers(clients, map[string]int{"200": 2})
	for range 5 {
		s.pass(100 * time.Millisecond)
	}
	s.wantAnswers(clients, map[string]int{"200": 5})
	s.wantUsed("a", qos.ReadIOPS, 7)
	s.wantUsed("a", qos.ClientEgressBytes, 7*(700+responseCost))
	if n := len(s.loop.waits); n != 0 {
		t.Errorf("%d tenants wait for nothing", n)
	}
}

// One a second: of ten, three come in within the two seconds that a request may wait. The others are told which limit it was, are
// not charged for, and nothing was opened for them.
func TestDeadlineAtTheDoor(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}}, limited("a", 1, 1, 0, 0))
	clients := s.asks(10, "/o1", "a")
	looked := func() uint64 { return s.loop.stats.FilesHit + s.loop.stats.FilesMissed }
	s.wantAnswers(clients, map[string]int{"200": 1})
	s.pass(1900 * time.Millisecond)
	s.wantAnswers(clients, map[string]int{"200": 1})
	if looked() != 2 {
		t.Errorf("%d lookups for the 2 that were served", looked())
	}
	s.pass(200 * time.Millisecond)
	refused := 0
	for _, c := range clients {
		got := c.hear()
		if strings.HasPrefix(got, "HTTP/1.1 429 ") && strings.Contains(got, "\r\nTalon-Throttle: limit=read_iops; reason=exhausted; policy=a@1\r\n") &&
			strings.Contains(got, "\r\nRateLimit-Policy: \"read_iops\";q=1;w=1\r\n") && strings.Contains(got, "\r\nRetry-After: ") {
			refused++
		} else if got != "" && !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("got %q", got)
		}
		c.got = nil
	}
	served := 10 - 2 - refused
	if served < 0 || served > 1 {
		t.Errorf("%d refused at their deadline", refused)
	}
	if looked() != uint64(2+served) {
		t.Errorf("%d lookups, %d were served: something was opened for a refused one", looked(), 2+served)
	}
	s.wantUsed("a", qos.ReadIOPS, int64(2+served))
	s.pass(5 * time.Second)
	s.wantUsed("a", qos.ReadIOPS, int64(2+served))
	s.wantAnswers(clients, map[string]int{})
	if s.loop.raws.Held() != 0 || len(s.loop.waits) != 0 {
		t.Errorf("%d requests and %d tenants are still waiting", s.loop.raws.Held(), len(s.loop.waits))
	}
}

// An object of 21 KB where the tenant has 10 KB a second and 4 KB at once: it is served, all of it, at that pace.
func TestAnObjectLargerThanTheBurstIsPaced(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}}, limited("a", 0, 0, 10_000, 4000))
	name := fmt.Sprint("o", 5*simChunk+3)
	object := s.tree.objects[name]
	clients := s.asks(1, "/"+name, "a")
	c := clients[0]
	began := s.now
	for c.hear(); len(c.got) == 0 || !bytes.HasSuffix(c.got, object); c.hear() {
		s.pass(20 * time.Millisecond)
		if s.now-began > 10e9 || c.ended {
			t.Fatalf("after %v %d bytes have come, ended: %v", time.Duration(s.now-began), len(c.got), c.ended)
		}
	}
	took := time.Duration(s.now - began)
	least := time.Duration(float64(len(object)+responseCost-4000) / 10_000 * 1e9)
	if took < least || took > least*5/4 {
		t.Errorf("%d bytes took %v, want about %v", len(object), took, least)
	}
	s.wantUsed("a", qos.ClientEgressBytes, int64(len(object)+responseCost))
}

// A tenant's wait for its limit is nobody else's.
func TestATenantWaitsAlone(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}, {ID: "b"}}, append(limited("a", 1, 1, 1000, 1000), limited("b", 0, 0, 0, 0)...))
	a := s.asks(20, "/o700", "a")
	for range 20 {
		b := s.asks(1, fmt.Sprint("/o", 5*simChunk+3), "b")
		s.wantAnswers(b, map[string]int{"200": 1})
	}
	s.pass(3 * time.Second)
	if got := answers(a); got["200"] < 2 || got["200"] > 5 || got["200"]+got["429"] != 20 {
		t.Errorf("the other tenant got %v", got)
	}
}

// A policy that rejects does not let wait.
func TestRejectPolicy(t *testing.T) {
	policies := limited("a", 10, 40, 0, 0)
	policies[0].OnLimit = qos.Reject
	s := tellOf(t, []Tenant{{ID: "a"}}, policies, func(c *Config) { c.MaxConnections = 100 })
	clients := s.asks(60, "/o1", "a")
	s.pass(50 * time.Millisecond)
	got := answers(clients)
	if got["200"]+got["429"] != 60 || got["200"] < 10 || got["200"] > 41 {
		t.Errorf("answers %v of 60, of which 40 might be served at once: the others are told at once", got)
	}
	s.wantUsed("a", qos.ReadIOPS, int64(got["200"]))
	t.Log(got)
}

// Two ways to tell a banned tenant.
func TestBan(t *testing.T) {
	for _, mode := range []qos.BanMode{qos.BanError, qos.BanClose} {
		policies := limited("a", 10, 10, 0, 0)
		policies[0].OnLimit, policies[0].BanFor, policies[0].BanMode = qos.Ban, time.Minute, mode
		s := tellOf(t, []Tenant{{ID: "a"}}, policies)
		s.asks(30, "/o1", "a")
		s.pass(1500 * time.Millisecond) // its wanted use is judged
		c := s.client()
		c.say(getRequest("/o1", bearer("a")))
		s.pass(50 * time.Millisecond)
		if mode == qos.BanClose {
			s.want(c, "", true)
			if s.loop.stats.Closed[ClosedBanned] == 0 {
				t.Error("nobody was closed for the ban")
			}
			continue
		}
		got := c.hear()
		if !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, "limit=read_iops; reason=banned; policy=a@1") || c.ended {
			t.Errorf("a banned tenant is told %.300q", got)
		}
		s.pass(2 * time.Minute)
		s.wantAnswers(s.asks(1, "/o1", "a"), map[string]int{"200": 1})
	}
}

// Without a policy nothing is served, and that is not the tenant's fault.
func TestUnknownPolicyIsClosed(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}}, nil)
	c := s.asks(1, "/o1", "a")[0]
	s.pass(1900 * time.Millisecond)
	s.want(c, "", false)
	s.pass(200 * time.Millisecond)
	got := c.hear()
	if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "limit=read_iops; reason=unknown_policy; policy=a@0") {
		t.Errorf("told %.300q", got)
	}
	late := s.asks(1, "/o1", "a")
	s.pass(100 * time.Millisecond)
	for _, p := range limited("a", 0, 0, 0, 0) {
		s.control.set(p, s.now)
	}
	s.pass(100 * time.Millisecond)
	s.wantAnswers(late, map[string]int{"200": 1})
}

// A tenant whose limits were dropped, forgotten by a ledger that needed the room, and made anew, is served again.
func TestForgottenLimitsAreFoundAgain(t *testing.T) {
	cfg := qos.DefaultConfig()
	cfg.MaxLimits = 2
	s := tellWith(t, newControlOf(t, cfg, 1, limited("a", 100, 100, 1e6, 1e6)...), []Tenant{{ID: "a"}, {ID: "b"}})
	s.wantAnswers(s.asks(1, "/o1", "a"), map[string]int{"200": 1})
	drop := func(id string) {
		s.pass(5 * time.Second) // all is reported, and the allowance full
		for _, m := range []qos.Metric{qos.ReadIOPS, qos.ClientEgressBytes} {
			s.control.owner.DropPolicy(qos.Limit{Tenant: id, Metric: m})
			s.control.ledger.DropPolicy(qos.Limit{Tenant: id, Metric: m}, bootOffset+s.now)
		}
		s.pass(5 * time.Second)
	}
	for generation, id := range []string{"b", "a"} {
		drop(map[string]string{"a": "b", "b": "a"}[id])
		for _, p := range limited(id, 100, 100, 1e6, 1e6) {
			p.Generation = uint64(generation + 2)
			s.control.set(p, bootOffset+s.now)
		}
		s.pass(5 * time.Second)
		clients := s.asks(1, "/o1", id)
		s.pass(time.Second)
		s.wantAnswers(clients, map[string]int{"200": 1})
	}
}

// A worker that hears nothing of the limit's owner serves its allowance, and then says what it is.
func TestStaleView(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}}, limited("a", 10, 10, 0, 0))
	s.wantAnswers(s.asks(1, "/o1", "a"), map[string]int{"200": 1})
	s.control.frozen = true
	s.pass(time.Second)
	clients := s.asks(8, "/o1", "a")
	s.pass(3 * time.Second)
	n := 0
	for _, c := range clients {
		if got := c.hear(); strings.HasPrefix(got, "HTTP/1.1 503 ") && strings.Contains(got, "limit=read_iops; reason=stale_view") {
			n++
		}
	}
	if n != 8 {
		t.Errorf("%d of 8 were told that the view is stale", n)
	}
}

// The tenant's queue is 1024 requests: so many wait, and one more is told at once.
func TestQueueOf1024(t *testing.T) {
	allowFiles(t, 3000)
	s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: time.Hour}}, limited("a", 1, 1, 0, 0), func(c *Config) { c.MaxConnections = 1100 })
	clients := []*simClient{}
	for len(clients) < 1+DefaultQueueRequests {
		for range 32 {
			if len(clients) < 1+DefaultQueueRequests {
				s.connect()
				c := s.clients[len(s.clients)-1]
				c.say(getRequest("/o1", bearer("a")))
				clients = append(clients, c)
			}
		}
		s.turns(4, 1e3)
	}
	s.turns(20, 1e3)
	s.wantAnswers(clients, map[string]int{"200": 1})
	if n := s.count(stateQueued); n != DefaultQueueRequests {
		t.Fatalf("%d wait, want %d", n, DefaultQueueRequests)
	}
	s.connect()
	c := s.clients[len(s.clients)-1]
	c.say(getRequest("/o1", bearer("a")))
	s.turns(20, 1e3)
	got := c.hear()
	for _, want := range []string{"HTTP/1.1 429 ", "limit=queue_requests; reason=full; policy=a@0", "RateLimit-Policy: \"queue_requests\";q=1024;qu=\"concurrent-requests\""} {
		if !strings.Contains(got, want) {
			t.Errorf("the next is told %.400q, want %q in it", got, want)
		}
	}
	var again int
	fmt.Sscanf(got[strings.Index(got, "Retry-After: "):], "Retry-After: %d", &again)
	if again < DefaultQueueRequests || again > DefaultQueueRequests*3/2+1 { // one a second
		t.Errorf("Retry-After: %d with %d a second ahead", again, DefaultQueueRequests)
	}
	s.wantAnswers(clients, map[string]int{})
}

// Whoever loses its token while it waits is refused when its turn comes, and has been charged nothing.
func TestRevokedWhileWaiting(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: time.Minute}}, limited("a", 1, 1, 0, 0))
	clients := s.asks(3, "/o1", "a")
	s.wantAnswers(clients, map[string]int{"200": 1})
	if err := s.worker.setTenants(must(NewTenants([]Tenant{{ID: "a", Allow: []string{"/"}}}))); err != nil {
		t.Fatal(err)
	}
	s.pass(3 * time.Second)
	s.wantAnswers(clients, map[string]int{"401": 2})
	s.wantUsed("a", qos.ReadIOPS, 1)
}

// A token that becomes another tenant's while its request waits gives that request to nobody.
func TestTokenMovedWhileWaiting(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: time.Minute}, {ID: "b"}}, slices.Concat(limited("a", 1, 1, 0, 0), limited("b", 0, 0, 0, 0)))
	clients := s.asks(2, "/o1", "a")
	s.wantAnswers(clients, map[string]int{"200": 1})
	moved := must(NewTenants([]Tenant{{ID: "a", Allow: []string{"/"}}, {ID: "b", Allow: []string{"/"}, Tokens: []Token{tokenOf("a")}}}))
	if err := s.worker.setTenants(moved); err != nil {
		t.Fatal(err)
	}
	s.pass(2 * time.Second)
	s.wantAnswers(clients, map[string]int{"401": 1})
	s.wantUsed("a", qos.ReadIOPS, 1)
	s.wantUsed("b", qos.ReadIOPS, 0)
	s.wantAnswers(s.asks(1, "/o1", "a"), map[string]int{"200": 1})
	s.wantUsed("b", qos.ReadIOPS, 1)
}

// MaxConnections, MaxInflight: who is over is told so; the first ends the connection.
func TestTenantBounds(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a", MaxConnections: 2}, {ID: "b", MaxInflight: 2}, {ID: "c", QueueBytes: 5000}},
		slices.Concat(limited("a", 0, 0, 0, 0), limited("b", 0, 0, 0, 0), limited("c", 0, 0, 100, 1000)))
	s.wantAnswers(s.asks(2, "/o1", "a"), map[string]int{"200": 2})
	c := s.asks(1, "/o1", "a")[0]
	if got := c.hear(); !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, "limit=max_connections; reason=full") || !c.ended {
		t.Errorf("told %.300q, ended: %v", got, c.ended)
	}
	s.clients[0].hangUp()
	s.settle()
	s.wantAnswers(s.asks(1, "/o1", "a"), map[string]int{"200": 1})

	busy := s.asks(2, "/o700/missing", "b") // with the opener
	c = s.asks(1, "/o1", "b")[0]
	if got := c.hear(); !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, "limit=max_inflight; reason=full") {
		t.Errorf("told %.300q", got)
	}
	s.reply()
	s.wantAnswers(busy, map[string]int{"404": 2})
	s.wantAnswers(s.asks(1, "/o1", "b"), map[string]int{"200": 1})
	s.wantUsed("b", qos.ReadIOPS, 3)
}

// A connection belongs to the tenant of its latest request.
func TestConnectionsChangeHands(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}, {ID: "b"}}, slices.Concat(limited("a", 0, 0, 0, 0), limited("b", 0, 0, 0, 0)))
	want := func(a, b int64) {
		t.Helper()
		if got := [2]int64{s.worker.accounts["a"].connections.Load(), s.worker.accounts["b"].connections.Load()}; got != [2]int64{a, b} {
			t.Errorf("connections of a and b: %v, want %d and %d", got, a, b)
		}
	}
	c := s.asks(1, "/o1", "a")[0]
	want(1, 0)
	c.say(getRequest("/o1", bearer("b")))
	s.settle()
	want(0, 1)
	c.say(getRequest("/o1")) // nobody
	s.settle()
	want(0, 1)
	c.hangUp()
	s.settle()
	want(0, 0)
}

// What the socket does not take is given back, once, however the response ends.
func TestRefunds(t *testing.T) {
	for _, size := range []int{simCopy, 60 * simChunk} {
		s := tellOf(t, []Tenant{{ID: "a"}}, limited("a", 0, 0, 100<<20, 10<<20), func(c *Config) { c.SendBuffer = 8 << 10 })
		if err := os.WriteFile(filepath.Join(s.tree.path, "x"), pattern(size, 1), 0o644); err != nil {
			t.Fatal(err)
		}
		c := s.client()
		c.say(strings.Repeat(getRequest("/x", bearer("a")), 300))
		s.pass(time.Second)
		got := int64(len(c.hear()))
		c.hangUp()
		s.pass(time.Second)
		if n := s.count(stateFree); n != len(s.loop.conns) {
			t.Fatalf("%d of %d connections are closed", n, len(s.loop.conns))
		}
		used := s.control.used("a", qos.ClientEgressBytes)
		sent := int64(s.loop.stats.SentSendfile + s.loop.stats.SentCopy)
		// Of the responses that were cut off the socket may have taken something that no counter of ours knows, but at most its buffer.
		begun := s.control.used("a", qos.ReadIOPS)
		if least := sent + (begun-1)*responseCost; used < least || used > least+responseCost+64<<10 {
			t.Errorf("size %d: %d bytes charged for %d responses begun and %d body bytes (%d read by the client)", size, used, begun, sent, got)
		}
	}
}

// Adding a policy in shadow mode changes no byte of any answer, though it would have denied.
func TestShadowChangesNoByte(t *testing.T) {
	run := func(policies []qos.Policy) (all []string, s *story) {
		s = tellOf(t, []Tenant{{ID: "a"}}, policies)
		for _, path := range []string{"/o1", "/o700", fmt.Sprint("/o", 5*simChunk+3), "/nope", "/o700", "/o0", fmt.Sprint("/o", simCopy)} {
			for range 5 {
				c := s.asks(1, path, "a")[0]
				s.pass(10 * time.Millisecond)
				all = append(all, c.hear())
			}
		}
		return all, s
	}
	plain, _ := run(limited("a", 0, 0, 0, 0))
	policies := limited("a", 1, 1, 100, 100)
	policies[0].Mode, policies[1].Mode = qos.Shadow, qos.Shadow
	shadow, s := run(policies)
	if !slices.Equal(plain, shadow) {
		t.Errorf("the answers differ")
	}
	seat := s.worker.accounts["a"].seats[0]
	if seat.stats.Shadow[limitReadIOPS] == 0 || seat.stats.Shadow[limitEgress] == 0 {
		t.Errorf("nothing would have been denied: %v", seat.stats.Shadow)
	}
	if used := s.control.used("a", qos.ReadIOPS); used > 3 {
		t.Errorf("%d requests are charged that a shadow policy would have denied", used)
	}
}

// Clients that do not read small answers hold up neither the others nor the scheduler.
func TestUnreadSmallAnswersHoldUpNobody(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}, {ID: "b"}}, slices.Concat(limited("a", 0, 0, 0, 0), limited("b", 0, 0, 0, 0)), func(c *Config) {
		c.TransferChunk, c.CopyBelow, c.MaxConnections = 64<<10, 16<<10, 300
	})
	if err := os.WriteFile(filepath.Join(s.tree.path, "x"), pattern(16<<10, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 250 {
		s.connect()
		s.clients[len(s.clients)-1].say(strings.Repeat(getRequest("/x", bearer("a")), 20))
		s.turns(2, 1e5)
	}
	s.turns(300, 1e5)
	if n := s.count(stateSending); n < 150 {
		var by [stateClosing + 1]int
		for i := range s.loop.conns {
			by[s.loop.conns[i].state]++
		}
		t.Fatalf("only %d sends are stalled: nothing is proved: %v", n, by)
	}
	s.wantAnswers(s.asks(1, "/o1", "b"), map[string]int{"200": 1})
}

// A tenant that is taken out of the table is forgotten when nothing of it is left, and not before.
func TestRetiredTenants(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a"}}, limited("a", 0, 0, 0, 0))
	c := s.asks(1, "/o700/missing", "a")[0]
	swap := func(ids ...string) {
		var list []Tenant
		for _, id := range ids {
			list = append(list, Tenant{ID: id})
		}
		if err := s.worker.setTenants(must(NewTenants(list))); err != nil {
			t.Fatal(err)
		}
		s.settle()
	}
	for i := range 5 {
		swap(fmt.Sprint("other", i))
	}
	if n := len(s.worker.retired); n != 2 { // a, which is being answered, and the one that went last
		t.Errorf("%d retired accounts, want 2", n)
	}
	s.reply()
	s.want(c, "HTTP/1.1 401 ", false) // its token is nobody's any more
	c.hangUp()
	s.settle()
	swap()
	swap()
	if n := len(s.worker.retired); n != 0 {
		t.Errorf("%d retired accounts are left", n)
	}
}

// Over every interval of a run, what the sockets have accepted (and 512 bytes a response) is at most burst + rate * its length, whatever the
// number of connections; and nearly all of the rate is delivered.
func TestEgressNeverPassesTheBucket(t *testing.T) {
	const rate, burst = 400_000, 50_000
	for _, conns := range []int{1, 8, 64} {
		s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: time.Hour}}, limited("a", 0, 0, rate, burst), func(c *Config) { c.MaxConnections = 100 })
		paths := []string{"/o700", fmt.Sprint("/o", 5*simChunk+3), fmt.Sprint("/o", simCopy), "/nope"}
		for i := range conns {
			c := s.client()
			c.say(strings.Repeat(getRequest(paths[i%4], bearer("a"))+getRequest(paths[(i+1)%4], bearer("a")), 300))
		}
		type event struct{ at, sent int64 }
		var run []event
		began := s.now
		for s.now-began < 2e9 {
			s.turns(1, 1e6)
			for _, c := range s.clients {
				c.hear()
				c.got = c.got[:0]
				if len(c.unsent) > 0 {
					c.flush()
				}
			}
			st := &s.loop.stats
			responses := int64(0)
			for _, n := range st.Requests {
				responses += int64(n)
			}
			run = append(run, event{s.now, int64(st.SentSendfile+st.SentCopy) + responses*responseCost})
		}
		worst, short := int64(0), int64(0)
		for i := range run {
			for _, e := range run[:i] {
				worst = max(worst, run[i].sent-e.sent-burst-rate*(run[i].at-e.at)/1e9)
			}
		}
		if last := run[len(run)-1]; worst > 0 {
			t.Errorf("%d connections: %d bytes more than burst and rate allow in some interval", conns, worst)
		} else if short = rate*(last.at-began)/1e9 - last.sent; short > rate/10 {
			t.Errorf("%d connections: %d of %d bytes delivered", conns, last.sent, last.sent+short)
		}
		s.check()
	}
}

// Two tenants behind one rate for the whole worker share it by their weights.
func TestEgressRateIsSharedByWeight(t *testing.T) {
	const rate = 20 << 20
	s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: time.Hour}, {ID: "b", Weight: 3, QueueDeadline: time.Hour}},
		slices.Concat(limited("a", 0, 0, 0, 0), limited("b", 0, 0, 0, 0)),
		func(c *Config) {
			c.EgressRate, c.MaxConnections, c.TransferChunk, c.CopyBelow = rate, 100, 64<<10, 1000
		})
	if err := os.WriteFile(filepath.Join(s.tree.path, "big"), make([]byte, 100<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	sent := map[string]*int64{"a": new(int64), "b": new(int64)}
	for tenant, n := range map[string]int{"a": 20, "b": 4} {
		for range n {
			c := s.client()
			c.say(getRequest("/big", bearer(tenant)))
			c.tally = sent[tenant]
		}
	}
	read := func(ns int64) {
		for end := s.now + ns; s.now < end; {
			s.turns(1, 1e6)
			for _, c := range s.clients {
				c.hear()
				*c.tally += int64(len(c.got))
				c.got = c.got[:0]
			}
		}
	}
	read(1e9)
	*sent["a"], *sent["b"] = 0, 0
	read(2e9)
	all := *sent["a"] + *sent["b"]
	if share := float64(*sent["b"]) / float64(*sent["a"]); share < 2.85 || share > 3.15 {
		t.Errorf("weights 1 and 3 got %d and %d bytes: 1 to %.2f", *sent["a"], *sent["b"], share)
	}
	if part := float64(all) / (2 * rate); part < 0.97 || part > 1.02 {
		t.Errorf("%.3f of the rate was used", part)
	}
}

// Twenty responses of one tenant wait for a rate, then one of another. By default that has its share at once; in the order of arrival it is the last.
func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		order sched.Order
		first bool // of the two tenants, the latecomer is through first
	}{{sched.Fair, true}, {sched.RingLocal, true}, {sched.FIFO, false}} {
		s := tellOf(t, []Tenant{{ID: "many"}, {ID: "one"}}, append(limited("many", 0, 0, 0, 0), limited("one", 0, 0, 0, 0)...), func(c *Config) {
			c.EgressRate, c.Order = 1e6, tt.order
		})
		many := s.asks(60, "/o20483", "many")
		one := s.asks(1, "/o20483", "one")
		whole := func(clients []*simClient) (n int) {
			for _, c := range clients {
				if len(c.hear()) > 20483 {
					n++
				}
			}
			return n
		}
		for range 1000 {
			if whole(one) == 1 {
				break
			}
			s.pass(2 * time.Millisecond)
		}
		if n := whole(many); whole(one) != 1 || (n < 50) != tt.first {
			t.Errorf("order %d: the latecomer has its answer when %d of the 60 before it have theirs", tt.order, n)
		}
	}
}
