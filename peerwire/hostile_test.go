package peerwire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
	"google.golang.org/protobuf/encoding/protowire"
)

// goodHello is what a peer of the test's own says to w.
func goodHello(w *worker, id qos.WorkerID) *hello {
	return &hello{version: protocol, oldest: oldestProtocol, worker: id, to: w.id, epoch: 1, limits: sharedOf(&w.c.limits)}
}

// knock opens a connection to a worker's peer port, and sends something.
func knock(t *testing.T, w *worker, first []byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	check(t, err)
	t.Cleanup(func() { c.Close() })
	c.Write(first)
	return c
}

// farewell reads until the worker closes, and returns the last words.
func farewell(t *testing.T, c net.Conn) (bye string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	in, buf := bufio.NewReader(c), []byte(nil)
	for {
		frame, room, err := readFrame(in, buf, maxFrame)
		if err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("the connection stays open")
			}
			return bye
		}
		buf = room
		var b batch
		if _, last, err := decode(frame, &b); err == nil && last != "" {
			bye = last
		}
	}
}

// sent makes a frame of a batch.
func sent(b *batch) []byte {
	var e encoder
	return e.encode(b)
}

// TestStrangers come to the peer port with all that they have. Each is refused, counted, and told why where it has shown that it speaks the protocol; and
// the cluster goes on.
func TestStrangers(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 2, nil, p)
	w := c.workers[0]
	frame := func(body []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	hi := func(mend func(*hello)) []byte {
		h := goodHello(w, "w9")
		mend(h)
		return appendHello(nil, h)
	}
	refused := func(c WireCounters) uint64 { return c.Refused }
	bad := func(c WireCounters) uint64 { return c.BadFrames }
	for _, tt := range []struct {
		name  string
		first []byte
		words string // among the last
		count func(WireCounters) uint64
	}{
		{"a browser", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "", refused},
		{"4 GiB", []byte{0xff, 0xff, 0xff, 0xff}, "", refused},
		{"a long hello", frame(make([]byte, maxHello+1)), "", refused},
		{"an empty first frame", frame(nil), "", refused},
		{"reports before the hello", sent(drawBatch(1)), "", refused},
		{"noise", frame([]byte{0xff, 0xff, 0xff}), "", refused},
		{"a later protocol", hi(func(h *hello) { h.version, h.oldest = 9, 8 }), "understands none before 8", refused},
		{"no protocol", hi(func(h *hello) { h.version, h.oldest = 0, 0 }), "protocol 0", refused},
		{"nobody", hi(func(h *hello) { h.worker = "" }), "worker id", refused},
		{"no incarnation", hi(func(h *hello) { h.epoch = 0 }), "epoch 0", refused},
		{"the worker itself", hi(func(h *hello) { h.worker = "w1" }), "two processes share it", refused},
		{"somebody who wants another", hi(func(h *hello) { h.to = "w2" }), "check the peers' addresses", refused},
		{"other settings", hi(func(h *hello) { h.limits.ttl *= 2 }), "all need the same", refused},
		{"4 GiB later", append(hi(func(*hello) {}), 0xff, 0xff, 0xff, 0xff), "", bad},
		{"a second hello", append(hi(func(*hello) {}), hi(func(*hello) {})...), "", bad},
		{"a group", append(hi(func(*hello) {}), frame(protowire.AppendTag(nil, 1, protowire.StartGroupType))...), "", bad},
		{"64 KiB of empty messages", append(hi(func(*hello) {}), frame(bytes.Repeat([]byte{0x12, 0}, maxFrame/2))...), "", bad},
		{"silence in mid-frame", append(hi(func(*hello) {}), 0, 0, 0, 9, 1), "", func(c WireCounters) uint64 { return c.Silent }},
	} {
		before := tt.count(w.node.Status().Wire)
		conn := knock(t, w, tt.first)
		if bye := farewell(t, conn); !strings.Contains(bye, tt.words) {
			t.Errorf("%s: told %q, want %q in it", tt.name, bye, tt.words)
		}
		until(t, tt.name+" is counted", func() bool { return tt.count(w.node.Status().Wire) == before+1 })
	}
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 8<<20, "use after all of them")
	stop()
	c.judge()
}

// TestOneMebibyteOfNothing: a peer that is known floods with empty messages, frame after frame within the bounds. They are read, mean nothing, and take no
// memory that stays.
func TestOneMebibyteOfNothing(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 2, nil, p)
	w := c.workers[0]
	conn := knock(t, w, appendHello(nil, goodHello(w, "w9")))
	go io.Copy(io.Discard, conn)
	body := bytes.Repeat([]byte{0x12, 0}, maxElements)
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	before := heapInUse()
	for range 1 << 20 / len(frame) {
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all are counted as forged", func() bool {
		return w.node.Status().Counters.Forged == uint64(1<<20/len(frame)*maxElements)
	})
	// Four batches of 1,024 reports in flight, each about 350 bytes, and room for the answers.
	if grown := heapInUse() - before; grown > 8<<20 {
		t.Errorf("%d bytes more in use", grown)
	}
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 8<<20, "use after the flood")
	stop()
	c.judge()
}

// heapInUse is what is in use after a collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestByteAtATime: frames that come in single bytes are frames like others.
func TestByteAtATime(t *testing.T) {
	c := newCluster(t, 2, nil, egress(64<<20, 4<<20))
	w := c.workers[0]
	conn := knock(t, w, nil)
	go io.Copy(io.Discard, conn)
	conn.(*net.TCPConn).SetNoDelay(true)
	all := appendHello(nil, goodHello(w, "w9"))
	all = append(all, sent(&batch{asks: []qos.Ask{{Worker: "w1", Incarnation: 1}}})...) // in another's name, so that it is counted
	for i := range all {
		if _, err := conn.Write(all[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the question is read", func() bool { return w.node.Status().Counters.Forged == 1 })
}

// TestNobodySpeaksForAnother sends, over a good connection, every kind of message in the name of another worker, of another incarnation, or about what the
// sender does not own. None changes anything.
func TestNobodySpeaksForAnother(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 3, nil, p)
	owner := c.ownerOf(p.Limit())
	var other *worker
	for _, other = range c.workers {
		if other != owner {
			break
		}
	}
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 4<<20, "use before")
	report := qos.UsageReport{
		Key: p.Key(), From: qos.ReporterID{Worker: other.id, Epoch: other.epoch, Cell: 1}, RingEpoch: 1, Sequence: 1 << 40,
		ByteDelta: 1 << 50, Total: qos.Total{Charged: 1 << 50}, Wanted: 1 << 50, Stamp: Boottime(),
	}
	newer := report
	newer.From = qos.ReporterID{Worker: "w9", Epoch: 99, Cell: 1}
	gift := qos.RateSnapshot{
		Key: p.Key(), To: qos.ReporterID{Worker: other.id, Epoch: other.epoch, Cell: 1}, RingEpoch: 1, Remaining: 1 << 50, Stamp: Boottime(),
		Mark: qos.Mark{Owner: qos.OwnerEpoch{Ring: 1, Worker: 99}, Version: 1 << 40}, AckSequence: 1 << 41,
	}
	for _, tt := range []struct {
		name    string
		to      *worker
		b       batch
		forged  uint64
		strange uint64
	}{
		{"use of another worker", owner, batch{reports: []qos.UsageReport{report}}, 1, 0},
		{"use of another incarnation", owner, batch{reports: []qos.UsageReport{newer}}, 1, 0},
		{"a question of another", owner, batch{asks: []qos.Ask{{Worker: other.id, Incarnation: 99, Epoch: 1}}}, 1, 0},
		{"an answer of another", owner, batch{answers: []qos.Answer{{Voter: other.id, VoterEpoch: 1, Incarnation: 1, Epoch: 99, Stamp: 1}}}, 1, 0},
		{"an answer of another incarnation", owner, batch{answers: []qos.Answer{{Voter: "w9", VoterEpoch: 1 << 40, Incarnation: 1, Epoch: 99, Stamp: 1}}}, 1, 0},
		{"a snapshot of what it does not own", other, batch{snapshots: []qos.RateSnapshot{gift}}, 0, 1},
		{"a redirect of what it does not own", other, batch{redirects: []qos.Redirect{{Key: p.Key(), To: gift.To, Reason: qos.OldEpoch}}}, 0, 1},
	} {
		conn := knock(t, tt.to, appendHello(nil, goodHello(tt.to, "w9")))
		go io.Copy(io.Discard, conn)
		before := tt.to.node.Status().Counters
		conn.Write(sent(&tt.b))
		until(t, tt.name+" is counted", func() bool {
			now := tt.to.node.Status().Counters
			return now.Forged-before.Forged == tt.forged && now.Strange-before.Strange == tt.strange
		})
		conn.Close()
	}
	c.more(p.Limit(), 4<<20, "use after")
	stop()
	c.judge()
	if s := owner.node.Status(); s.Owned[0].Used > c.judges[p.Limit()].total {
		t.Errorf("the owner counts %d, used are %d", s.Owned[0].Used, c.judges[p.Limit()].total)
	}
	if s := other.node.Status(); s.Fenced {
		t.Error("fenced by a stranger")
	}
}

// TestThousandsKnock opens two thousand connections as fast as this machine can, some silent, some with a hello that is none. They are greeted at the pace
// of the peer port and no faster, what is beyond the bound is reset, the rest closed or left to the kernel; memory and goroutines stay bounded, and the workers serve on.
func TestThousandsKnock(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 2, nil, p)
	w := c.workers[0]
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 4<<20, "use before")
	before, routines, most, left := heapInUse(), runtime.NumGoroutine(), 0, 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for k := range 4 {
		wg.Go(func() {
			var open []net.Conn
			for i := range 500 {
				conn, err := net.DialTimeout("tcp", w.addr, 20*time.Millisecond)
				if err != nil { // the backlog is full: that, too, is a refusal
					mu.Lock()
					left++
					mu.Unlock()
					continue
				}
				if k%2 == 0 {
					conn.Write([]byte{0, 0, 0, 1, 0xff})
					conn.Close()
					continue
				}
				if open = append(open, conn); len(open) == 50 { // silent ones, fifty at a time
					for _, c := range open {
						c.Close()
					}
					open = open[:0]
				}
				if i%100 == 0 {
					mu.Lock()
					most = max(most, runtime.NumGoroutine())
					mu.Unlock()
				}
			}
			for _, c := range open {
				c.Close()
			}
		})
	}
	wg.Wait()
	c.more(p.Limit(), 4<<20, "use after")
	stop()
	c.judge()
	s := w.node.Status().Wire
	greeted := s.Accepted + s.RefusedBusy + s.Refused
	lived := time.Since(w.node.wire.began) // read after the counters: it is no less than what they are of
	t.Logf("busy %d, refused %d, paced %d within %v, %d left to the kernel; %d goroutines before, %d at most; heap grew by %d", s.RefusedBusy, s.Refused, s.Paced, lived, left, routines, most, heapInUse()-before)
	if s.RefusedBusy+s.Refused == 0 || s.Paced == 0 {
		t.Errorf("%d reset, %d refused, %d paced", s.RefusedBusy, s.Refused, s.Paced)
	}
	if float64(greeted) > acceptBurst+acceptRate*lived.Seconds()+1 {
		t.Errorf("%d connections were greeted within %v", greeted, lived)
	}
	if came := 2000 - left; float64(came) > acceptBurst+acceptRate*lived.Seconds()+2*acceptBacklog {
		t.Errorf("%d connections found room, %d of them greeted: the backlog is too long", came, greeted)
	}
	if most > routines+2*maxGreetOne+16 {
		t.Errorf("%d goroutines, %d before", most, routines)
	}
	if grown := heapInUse() - before; grown > 16<<20 {
		t.Errorf("%d bytes more in use", grown)
	}
}

// TestShortBacklog: once nobody accepts, the kernel takes about as many connections as the backlog says, so that whoever comes after a flood does not stand
// behind thousands.
func TestShortBacklog(t *testing.T) {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	defer ln.Close()
	check(t, shorten(ln, 8))
	came := 0
	for range 64 {
		conn, err := net.DialTimeout("tcp", ln.Addr().String(), 100*time.Millisecond)
		if err != nil {
			break
		}
		defer conn.Close()
		came++
	}
	if came == 0 || came > 16 {
		t.Errorf("%d connections found room in a backlog of 8", came)
	}
}

// TestPeerThatFloods: a known peer sends frames as fast as they are taken. They are read at the pace of a link, the worker serves on, and the link is closed.
func TestPeerThatFloods(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 2, nil, p)
	w := c.workers[0]
	begun := time.Now()
	conn := knock(t, w, appendHello(nil, goodHello(w, "w9")))
	go io.Copy(io.Discard, conn)
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		for b := make([]byte, 16<<10); ; { // four bytes of zero are a frame
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	}()
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 8<<20, "use under the flood")
	<-flooded
	until(t, "the end of the link is counted", func() bool { return w.node.Status().Wire.BadFrames == 1 })
	s := w.node.Status().Wire
	// Those of the other worker are among them: it sends one a millisecond at most, and as many answers.
	if most := frameBurst + frameRest*(frameRests+1) + 1 + 2*frameRate*time.Since(begun).Seconds(); float64(s.FramesIn) > most {
		t.Errorf("%d frames, want at most %.0f", s.FramesIn, most)
	}
	if s.Rested != frameRests+1 {
		t.Errorf("the link has rested %d times, want %d and the end", s.Rested, frameRests)
	}
	stop()
	c.judge()
}

// TestPeerThatDoesNotRead: what is for it merges in its outbox, one message a limit, and is dropped with the link when it has not read for too long.
func TestPeerThatDoesNotRead(t *testing.T) {
	o := newOutbox()
	report := qos.UsageReport{Key: qos.RateKey{Tenant: "t", Metric: qos.ReadIOPS, Generation: 1}}
	snapshot := qos.RateSnapshot{Key: report.Key, To: qos.ReporterID{Worker: "w", Epoch: 1, Cell: 1}}
	for i := range int64(1000) {
		report.Total.Charged, snapshot.Remaining = i, i
		other := snapshot
		other.To.Cell = 2
		o.add(&batch{reports: []qos.UsageReport{report}, snapshots: []qos.RateSnapshot{snapshot, other}, asks: []qos.Ask{{Stamp: i}}})
	}
	b, last := o.take(&batch{})
	if len(b.reports) != 1 || len(b.snapshots) != 2 || len(b.asks) != 1 || last {
		t.Fatalf("%d reports, %d snapshots, %d questions, last %v", len(b.reports), len(b.snapshots), len(b.asks), last)
	}
	if b.reports[0].Total.Charged != 999 || b.snapshots[1].Remaining != 999 || b.asks[0].Stamp != 999 {
		t.Errorf("what is kept is not the newest: %+v", b)
	}
	if merged, dropped, _ := o.counts(); merged != 3*999 || dropped != 0 {
		t.Errorf("%d merged, %d dropped", merged, dropped)
	}
	for i := range uint64(2 * maxQueued) { // so many limits
		report.Key.Generation = 1
		report.Key.Tenant = string(binary.BigEndian.AppendUint64(nil, i))
		o.add(&batch{reports: []qos.UsageReport{report}, redirects: []qos.Redirect{{}}, answers: []qos.Answer{{}}, handOvers: []qos.HandOver{{}}})
	}
	o.end()
	o.add(&batch{reports: []qos.UsageReport{report}})
	b, last = o.take(&batch{})
	_, dropped, lost := o.counts()
	if len(b.reports) != maxQueued || len(b.redirects) != maxAnswers || len(b.answers) != maxAnswers || len(b.handOvers) != 2*maxQueued || !last {
		t.Errorf("%d reports, %d redirects, %d answers, %d hand-overs, last %v", len(b.reports), len(b.redirects), len(b.answers), len(b.handOvers), last)
	}
	big := batch{handOvers: []qos.HandOver{{Reporters: make([]qos.HandOverReporter, 255)}}}
	o = newOutbox()
	for range maxHanded/256 + 3 {
		o.add(&big)
	}
	if b, _ := o.take(&batch{}); len(b.handOvers) != maxHanded/256 || o.handLost != 3 {
		t.Errorf("%d large hand-overs kept, %d lost", len(b.handOvers), o.handLost)
	}
	o.add(&big)
	if b, _ := o.take(&batch{}); len(b.handOvers) != 1 {
		t.Error("an outbox that was taken has no room")
	}
	if dropped != maxQueued+2*(2*maxQueued-maxAnswers) || lost != 0 {
		t.Errorf("%d dropped, %d hand-overs lost", dropped, lost)
	}
}

// TestTwoConnectionsRace: whatever the order in which the two ends learn of two connections that cross, both keep the same one.
func TestTwoConnectionsRace(t *testing.T) {
	limits := testLimits()
	end := func(id qos.WorkerID) *wire {
		cfg := Config{Worker: id, Epoch: 1, Limits: limits, Ledger: must(qos.NewLedger(limits, 1))}
		check(t, cfg.mend())
		return newWire(&cfg, newMailbox(), func() uint64 { return 0 })
	}
	type event struct {
		at    string // which end hears of it
		by    string // who has dialed
		fresh uint64 // incarnation of the other
	}
	for _, order := range [][]event{
		{{"a", "a", 1}, {"a", "b", 1}, {"b", "a", 1}, {"b", "b", 1}},
		{{"a", "b", 1}, {"a", "a", 1}, {"b", "a", 1}, {"b", "b", 1}},
		{{"a", "a", 1}, {"b", "b", 1}, {"a", "b", 1}, {"b", "a", 1}},
		{{"b", "b", 1}, {"a", "b", 1}, {"b", "a", 1}, {"a", "a", 1}},
	} {
		ends := map[string]*wire{"a": end("a"), "b": end("b")}
		for _, e := range order {
			other := map[string]qos.WorkerID{"a": "b", "b": "a"}[e.at]
			x, y := net.Pipe()
			defer y.Close()
			l := newLink(x, &hello{worker: other, epoch: e.fresh}, e.by == e.at, bufio.NewReader(x))
			if err := ends[e.at].adopt(l); err != nil && !errors.Is(err, errDuplicate) {
				t.Fatal(err)
			}
		}
		for id, w := range ends {
			for _, l := range w.links {
				if by := map[bool]string{true: id, false: string(l.peer)}[l.dialed]; by != "a" {
					t.Errorf("order %v: %s keeps the connection that %s has dialed, want the lower id's", order, id, by)
				}
				l.close(errEnding)
			}
			w.cancel()
		}
	}

	w := end("a")
	defer w.cancel()
	link := func(dialed bool, epoch uint64) *link {
		x, y := net.Pipe()
		t.Cleanup(func() { x.Close(); y.Close() })
		return newLink(x, &hello{worker: "b", epoch: epoch}, dialed, bufio.NewReader(x))
	}
	first, again, newer, older := link(true, 2), link(true, 2), link(false, 3), link(true, 2)
	check(t, w.adopt(first))
	check(t, w.adopt(again)) // it dials only when it has none
	if !first.over() || again.over() {
		t.Error("the same side's second connection does not replace its first")
	}
	check(t, w.adopt(newer))
	if !again.over() {
		t.Error("a newer incarnation does not replace the older one's connection")
	}
	if err := w.adopt(older); !errors.Is(err, errOutdated) {
		t.Errorf("an older incarnation: %v, want errOutdated", err)
	}
	if in := w.mail.take(&inputs{}); len(in.presence) != 1 || in.presence[0] != (presence{"b", 3}) {
		t.Errorf("the loop hears %+v", in.presence)
	}
}
