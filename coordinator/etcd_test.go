package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/talon-worker/talon/qos"
)

// cluster is a real etcd of one member.
type cluster struct {
	t        *testing.T
	client   string // host:port
	peer     string
	dir      string
	cmd      *exec.Cmd
	log      bytes.Buffer
	prefixes int
}

// freePort is below those that the kernel gives out (ip_local_port_range): nobody who asks for any port is given it meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port on 127.0.0.1")
	return ""
}

// startEtcd starts the machine's etcd; where there is none the test is skipped. CI installs it.
func startEtcd(t *testing.T) *cluster {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("no etcd in PATH: apt-get install etcd-server")
	}
	c := &cluster{t: t, client: freePort(t), peer: freePort(t), dir: t.TempDir()}
	c.up()
	t.Cleanup(c.down)
	return c
}

func (c *cluster) up() {
	c.t.Helper()
	c.cmd = exec.Command("etcd", "--name", "one", "--data-dir", filepath.Join(c.dir, "data"), "--log-level", "error",
		"--listen-client-urls", "http://"+c.client, "--advertise-client-urls", "http://"+c.client,
		"--listen-peer-urls", "http://"+c.peer, "--initial-advertise-peer-urls", "http://"+c.peer, "--initial-cluster", "one=http://"+c.peer)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	e := c.open("")
	defer e.Close()
	for late := time.Now().Add(patience); ; {
		if _, err := e.client.Get(c.t.Context(), "x"); err == nil {
			return
		} else if time.Now().After(late) {
			c.t.Fatalf("etcd does not answer: %v\n%s", err, c.log.String())
		}
	}
}

func (c *cluster) down() {
	if c.cmd != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		c.cmd = nil
	}
}

// open returns a coordinator at a prefix; "" is one of its own.
func (c *cluster) open(prefix string, set ...func(*EtcdConfig)) *Etcd {
	c.t.Helper()
	if prefix == "" {
		c.prefixes++
		prefix = fmt.Sprintf("talon%d", c.prefixes)
	}
	cfg := EtcdConfig{Endpoints: []string{c.client}, Prefix: prefix, Lease: time.Second}
	for _, f := range set {
		f(&cfg)
	}
	e, err := OpenEtcd(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return e
}

// following is a Follow under way.
type following struct {
	t      *testing.T
	states chan State
	errs   chan error
	last   State
}

func follow(t *testing.T, s Source) (*following, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{t: t, states: make(chan State, 1000), errs: make(chan error, 1000)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Follow(ctx, func(s State) { f.states <- s }, func(err error) { f.errs <- err })
	}()
	return f, func() { cancel(); <-ended }
}

// until waits for a State of that kind. No State may be older than the one before it.
func (f *following) until(what string, is func(State) bool) State {
	f.t.Helper()
	for late := time.After(patience); ; {
		select {
		case s := <-f.states:
			if s.Book.Generation < f.last.Book.Generation || s.Ring.Epoch < f.last.Ring.Epoch {
				f.t.Fatalf("went back from policy %d, ring %d to %d, %d", f.last.Book.Generation, f.last.Ring.Epoch, s.Book.Generation, s.Ring.Epoch)
			}
			if f.last = s; is(s) {
				return s
			}
		case <-late:
			f.t.Fatalf("%s: has not come; the last was policy %d, ring %+v", what, f.last.Book.Generation, f.last.Ring)
		}
	}
}

func (f *following) untilPolicy(generation uint64) State {
	f.t.Helper()
	return f.until(fmt.Sprint("policy ", generation), func(s State) bool { return s.Book.Generation == generation })
}

func (f *following) untilError(part string) {
	f.t.Helper()
	for late := time.After(patience); ; {
		select {
		case err := <-f.errs:
			if err != nil && strings.Contains(err.Error(), part) || err == nil && part == "" {
				return
			}
		case <-late:
			f.t.Fatalf("no error with %q", part)
		}
	}
}

func save(t *testing.T, s Store, change func(Book) Change) uint64 {
	t.Helper()
	b, err := s.Load(t.Context())
	if err != nil && !errors.Is(err, ErrNoPolicy) {
		t.Fatal(err)
	}
	g, err := s.Save(t.Context(), b, change(b), "test")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// withRate is the policy with another rate of serving.
func withRate(rate string) func(Book) Change {
	return func(b Book) Change {
		records, _, err := Split("p.yaml", []byte(strings.Replace(start, "20000/s", rate, 1)))
		if err != nil {
			panic(err)
		}
		return b.ChangeTo(records, true)
	}
}

func TestEtcd(t *testing.T) {
	c := startEtcd(t)
	t.Run("store", func(t *testing.T) {
		e := c.open("")
		defer e.Close()
		storeStory(t, func() Store { return e })
	})
	t.Run("store of many", func(t *testing.T) {
		e := c.open("")
		defer e.Close()
		manyTenants(t, e, 1000)
	})
	t.Run("watch", func(t *testing.T) { testWatch(t, c) })
	t.Run("broken record", func(t *testing.T) { testBrokenRecord(t, c) })
	t.Run("emptied prefix", func(t *testing.T) { testEmptied(t, c) })
	t.Run("members", func(t *testing.T) { testMembers(t, c) })
	t.Run("replaced", func(t *testing.T) { testReplaced(t, c) })
	t.Run("force", func(t *testing.T) { testForce(t, c) })
	t.Run("compaction and restart", func(t *testing.T) { testRestart(t, c) })
	t.Run("begun without it", func(t *testing.T) { testResume(t, c) })
	t.Run("copy on disk", func(t *testing.T) { testCopy(t, c) }) // the last: etcd stays down
}

func testWatch(t *testing.T, c *cluster) {
	e := c.open("watch")
	defer e.Close()
	f, end := follow(t, e)
	defer end()
	save(t, e, withRate("20000/s"))
	f.untilPolicy(1)
	for i := range uint64(20) {
		save(t, e, withRate(fmt.Sprintf("%d/s", i+1)))
	}
	if s := f.untilPolicy(21); generation(s.Policy, "serving", qos.ReadIOPS) != 21 || generation(s.Policy, "batch", qos.ReadIOPS) != 1 {
		t.Errorf("generations %d and %d, want 21 and 1", generation(s.Policy, "serving", qos.ReadIOPS), generation(s.Policy, "batch", qos.ReadIOPS))
	}
}

// A record that no policy can be made of leaves the last good policy in force, says so, and is mended by the next.
func testBrokenRecord(t *testing.T, c *cluster) {
	e := c.open("broken")
	defer e.Close()
	f, end := follow(t, e)
	defer end()
	save(t, e, withRate("20000/s"))
	f.untilPolicy(1)
	_, err := e.client.Txn(t.Context()).Then(clientv3.OpPut(e.key(headKey), `{"generation":2}`),
		clientv3.OpPut(e.key(recordPrefix+"tenant/batch"), `{"generation":2,"text":"{id: batch, wait: 3}"}`)).Commit()
	if err != nil {
		t.Fatal(err)
	}
	f.untilError("generation 1 stays in force")
	b, err := e.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Save(t.Context(), b, b.ChangeTo(split(t, start), true), "test"); err != nil {
		t.Fatal(err)
	}
	f.untilPolicy(3)
	f.untilError("")
}

// Nothing goes back when the keys are gone, or older ones come instead.
func testEmptied(t *testing.T, c *cluster) {
	e := c.open("emptied")
	defer e.Close()
	f, end := follow(t, e)
	defer end()
	save(t, e, withRate("20000/s"))
	save(t, e, withRate("1/s"))
	f.untilPolicy(2)
	if _, err := e.client.Delete(t.Context(), e.key(""), clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.Put(t.Context(), e.key(headKey), `{"generation":1}`); err != nil {
		t.Fatal(err)
	}
	f.untilError("older than what is in force")
	select {
	case s := <-f.states:
		t.Fatalf("applied %+v", s.Book)
	default:
	}
}

// member is a worker that enlists, stays and may propose.
type member struct {
	e      *Etcd
	epoch  uint64
	cancel func()
	stayed chan error
}

func (c *cluster) join(prefix string, id qos.WorkerID, addr string) *member {
	c.t.Helper()
	m := &member{e: c.open(prefix), stayed: make(chan error, 1)}
	var err error
	if m.epoch, err = m.e.Enlist(c.t.Context(), Member{ID: id, Addr: addr}); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	proposed := make(chan struct{})
	go func() { m.stayed <- m.e.Stay(ctx, id, func(error) {}) }()
	go func() {
		defer close(proposed)
		m.e.Propose(ctx, id, func(uint64) bool { return true }, func(error) {})
	}()
	m.cancel = func() { cancel(); <-proposed }
	return m
}

// vanish is a crash: the lease runs out by itself.
func (m *member) vanish() {
	m.cancel()
	<-m.stayed
	m.e.Close()
}

// leave is a planned end.
func (m *member) leave(t *testing.T) {
	m.cancel()
	<-m.stayed
	if err := m.e.Withdraw(t.Context()); err != nil {
		t.Error(err)
	}
	m.e.Close()
}

func hasMembers(ids ...qos.WorkerID) func(State) bool {
	return func(s State) bool { return slices.Equal(s.Ring.IDs(), ids) }
}

// A story: workers come, crash, come back at another address, and leave; the ring follows, and whoever is left goes on proposing.
func testMembers(t *testing.T, c *cluster) {
	watch := c.open("members")
	defer watch.Close()
	f, end := follow(t, watch)
	defer end()
	a := c.join("members", "a", "127.0.0.1:1")
	b := c.join("members", "b", "127.0.0.1:2")
	f.until("a and b", hasMembers("a", "b"))
	d := c.join("members", "d", "127.0.0.1:4")
	three := f.until("d comes", hasMembers("a", "b", "d"))
	if len(three.Ring.Replaces) != 1 || len(three.Ring.Replaces[0].Voters) != 2 {
		t.Errorf("the ring of three replaces %+v, want the one of two", three.Ring.Replaces)
	}
	a.vanish() // the one that proposes
	f.until("a is gone", hasMembers("b", "d"))
	again := c.join("members", "a", "127.0.0.1:9")
	if again.epoch <= a.epoch {
		t.Errorf("epoch %d of the second process, %d of the first", again.epoch, a.epoch)
	}
	back := f.until("a is back", hasMembers("a", "b", "d"))
	if back.Ring.Members[0].Addr != "127.0.0.1:9" {
		t.Errorf("a is at %s, want its new address", back.Ring.Members[0].Addr)
	}
	b.leave(t)
	f.until("b has left", hasMembers("a", "d"))
	d.leave(t)
	again.leave(t)
}

// Two processes under one id: the first is told, the ring stays.
func testReplaced(t *testing.T, c *cluster) {
	first := c.join("replaced", "a", "127.0.0.1:1")
	second := c.join("replaced", "a", "127.0.0.1:2")
	// The first one's lease still lives; its key is the second's now. It notices when its lease is renewed in vain, at the latest when it gives it back.
	if _, err := first.e.client.Revoke(t.Context(), first.e.lease); err != nil {
		t.Fatal(err)
	}
	if err := <-first.stayed; !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
	first.cancel()
	first.e.Close()
	second.leave(t)
}

func testForce(t *testing.T, c *cluster) {
	e := c.open("force")
	defer e.Close()
	if _, err := e.Force(t.Context()); err == nil {
		t.Error("forced a ring that is not there")
	}
	f, end := follow(t, e)
	defer end()
	a := c.join("force", "a", "127.0.0.1:1")
	defer a.leave(t)
	s := f.until("a ring", hasMembers("a"))
	epoch, err := e.Force(t.Context())
	if err != nil || epoch != s.Ring.Epoch {
		t.Fatalf("forced %d, %v, want %d", epoch, err, s.Ring.Epoch)
	}
	f.until("forced", func(s State) bool { return s.Forced == epoch })
}

// What happens while the watch is cut off, and compacted away meanwhile, is seen all the same; the members are still members.
func testRestart(t *testing.T, c *cluster) {
	e := c.open("restart")
	defer e.Close()
	f, end := follow(t, e)
	defer end()
	a := c.join("restart", "a", "127.0.0.1:1")
	b := c.join("restart", "b", "127.0.0.1:2")
	save(t, e, withRate("20000/s"))
	before := f.until("a policy and a ring", func(s State) bool { return s.Book.Generation == 1 && len(s.Ring.Members) == 2 })
	c.down()
	f.untilError("etcd")
	c.up()
	save(t, e, withRate("5/s"))
	save(t, e, withRate("6/s"))
	resp, err := e.client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.Compact(t.Context(), resp.Header.Revision); err != nil {
		t.Fatal(err)
	}
	s := f.untilPolicy(3)
	if s.Ring.Epoch != before.Ring.Epoch {
		t.Errorf("the ring has moved from %d to %d though nobody came or went", before.Ring.Epoch, s.Ring.Epoch)
	}
	a.leave(t)
	b.leave(t)
}

// A story: a worker that cannot enlist begins with what its directory keeps, under an epoch above those of its earlier lives; it enlists with that when the
// cluster is back, and the next process has a higher one.
func testResume(t *testing.T, c *cluster) {
	dir := t.TempDir()
	start := func() *Etcd { return c.open("resume", func(cfg *EtcdConfig) { cfg.StateDir = dir }) }
	self := Member{ID: "a", Addr: "127.0.0.1:1"}
	away := errors.New("away")
	begin := func(e *Etcd) uint64 {
		t.Helper()
		epoch, err := e.Resume(self, away)
		if err != nil {
			t.Fatal(err)
		}
		if e.Enlisted() {
			t.Error("enlisted, without the cluster")
		}
		return epoch
	}
	cannot := func(e *Etcd, part string) {
		t.Helper()
		if epoch, err := e.Resume(self, away); !errors.Is(err, away) || !strings.Contains(err.Error(), part) {
			t.Errorf("epoch %d, %v, want an error with %q", epoch, err, part)
		}
	}
	e := c.open("resume")
	cannot(e, "no state directory")
	e.Close()
	e = start()
	cannot(e, "no worker has enlisted")
	epoch, err := e.Enlist(t.Context(), self)
	if err != nil || !e.Enlisted() {
		t.Fatal(err)
	}
	cannot(e, "has no policy")
	if _, err := OpenEtcd(e.cfg); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("two processes share a directory: %v", err)
	}
	f, end := follow(t, e)
	save(t, e, withRate("20000/s"))
	f.untilPolicy(1)
	end()
	e.Close()
	c.down()
	for range 2 { // killed and started again
		e = start()
		next := begin(e)
		if next <= epoch {
			t.Errorf("epoch %d after %d", next, epoch)
		}
		epoch = next
		e.Close()
	}
	e = start()
	epoch = begin(e)
	if err := e.Withdraw(t.Context()); err == nil {
		t.Error("withdrew what was not enlisted")
	}
	stay := func(e *Etcd) chan error {
		stayed := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		go func() { stayed <- e.Stay(ctx, self.ID, func(error) {}) }()
		return stayed
	}
	enlisted := func(e *Etcd) worker {
		t.Helper()
		for late := time.Now().Add(patience); ; {
			if e.Enlisted() {
				got, err := e.read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return got.workers[self.ID].worker
			}
			if time.Now().After(late) {
				t.Fatal("never enlisted")
			}
			e.knock()
		}
	}
	stayed := stay(e)
	c.up()
	if w := enlisted(e); w.Epoch != epoch || w.Addr != self.Addr {
		t.Errorf("enlisted as %+v, want epoch %d", w, epoch)
	}
	// Another machine starts under the same id: this process is the older one.
	other := c.open("resume", func(cfg *EtcdConfig) { cfg.Lease = time.Hour }) // nobody renews it
	defer other.Close()
	after, err := other.Enlist(t.Context(), self)
	if err != nil || after <= epoch {
		t.Errorf("epoch %d after %d: %v", after, epoch, err)
	}
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	if _, err := other.client.Revoke(t.Context(), lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // else it notices when the lease ends
		t.Fatal(err)
	}
	if err := <-stayed; !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
	e.Close()
	// A life that was below one elsewhere: it stops as soon as the cluster says so.
	e = start()
	defer e.Close()
	begin(e)
	if err := <-stay(e); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
	// A request to enlist that was carried out and not answered is the process's own.
	if err := other.Withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.register(t.Context(), self.ID, worker{Addr: self.Addr, Start: e.start}); err != nil {
		t.Fatal(err)
	}
	stay(e)
	if w := enlisted(e); w.Epoch != e.self.Epoch {
		t.Errorf("enlisted as %+v, want epoch %d", w, e.self.Epoch)
	}
}

// With the cluster away a worker begins with the last good State that it has on disk, and without one says what is wrong.
func testCopy(t *testing.T, c *cluster) {
	dir := t.TempDir()
	keep := func(cfg *EtcdConfig) { cfg.StateDir = dir }
	e := c.open("copy", keep)
	f, end := follow(t, e)
	save(t, e, withRate("77/s"))
	f.untilPolicy(1)
	end()
	e.Close()
	c.down()
	e = c.open("copy", keep)
	defer e.Close()
	f, end = follow(t, e)
	defer end()
	s := f.untilPolicy(1)
	if g := generation(s.Policy, "serving", qos.ReadIOPS); g != 1 {
		t.Errorf("generation %d from the copy, want 1", g)
	}
	f.untilError("etcd")
	if err := os.WriteFile(filepath.Join(dir, copyName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, end2 := follow(t, e)
	defer end2()
	broken.untilError("copy of the last policy and ring")
}
