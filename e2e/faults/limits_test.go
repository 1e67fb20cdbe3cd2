package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limited runs the worker with a limit of ulimit(1), and as whom the test says.
func limited(t *testing.T, limit string, attr *syscall.SysProcAttr, dir string, flags ...string) *worker {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", "ulimit " + limit + ` && exec "$0" "$@"`, talon}, serveArgs(dir, flags...)...)...)
	cmd.SysProcAttr = attr
	return startCommand(t, cmd)
}

// nobody is who runs what must not be root.
func nobody(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	asRoot(t, "runs the worker as uid 65534")
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// reader is a client in the middle of a large response.
type reader struct {
	*client
	resp *readerBody
}

type readerBody struct {
	io.ReadCloser
	got []byte
}

// startReading asks for path and reads a little of it.
func (w *worker) startReading(path string) (*reader, error) {
	c, err := w.connect()
	if err != nil {
		return nil, err
	}
	r := &reader{client: c}
	if err := errors.Join(c.conn.SetReadBuffer(64<<10), c.ask(path)); err != nil {
		c.close()
		return nil, err
	}
	resp, err := c.head()
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	r.resp = &readerBody{resp.Body, make([]byte, 1000)}
	_, err = io.ReadFull(resp.Body, r.resp.got)
	return r, err
}

// finish reads the rest, which must be right.
func (r *reader) finish(body []byte) error {
	rest, err := io.ReadAll(r.resp)
	if err == nil && !bytes.Equal(append(r.resp.got, rest...), body) {
		err = fmt.Errorf("other bytes than the object's")
	}
	r.close()
	return err
}

// TestNoDescriptorsOfTheProcess (EMFILE): those who are being answered hold all that there
// are. A newcomer is told 503, what was begun is finished, and the first descriptor that
// comes back serves the next.
func TestNoDescriptorsOfTheProcess(t *testing.T) {
	dir := tree(t)
	hot, big := object(t, dir, "hot", 8000), object(t, dir, "big", 24<<20)
	w := limited(t, "-n 40", nil, dir, "--min-drain-rate=0")
	w.want("hot", hot)
	w.want("big", big)
	before := w.holdings()
	var readers []*reader
	var refused error
	for range 60 {
		r, err := w.startReading("big")
		if refused = err; refused != nil {
			break
		}
		readers = append(readers, r)
	}
	if refused == nil || refused.Error() != "status 503" {
		t.Errorf("with %d readers and no descriptor left a newcomer got: %v, want status 503", len(readers), refused)
	}
	w.wellAfter("EMFILE", func() {
		for _, r := range readers[:4] {
			r.close()
		}
	}, w.serves("hot", hot), fmt.Sprint(len(readers)-4, " responses went on"))
	for i, r := range readers[4:] {
		if err := r.finish(big); err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
	}
	w.givenBack(before)
	if m := w.metrics(); m[`talon_accept_pauses_total{reason="descriptors"}`] == 0 || m[`talon_connections_refused_total{reason="descriptors"}`] == 0 {
		t.Errorf("not counted: %v pauses of the listener, %v turned away", m["talon_accept_pauses_total"], m["talon_connections_refused_total"])
	}
}

// TestNoDescriptorsOfTheMachine (ENFILE): the machine has no open file left for whoever is
// not root, not even one to say so with. What was begun is finished, newcomers wait in the
// backlog and are served when there are files again.
func TestNoDescriptorsOfTheMachine(t *testing.T) {
	dir := tree(t)
	hot, big := object(t, dir, "hot", 8000), object(t, dir, "big", 24<<20)
	w := limited(t, "-n 4000", nobody(t), dir, "--min-drain-rate=0")
	w.want("hot", hot)
	before := w.holdings()
	var readers []*reader
	for range 6 {
		r, err := w.startReading("big")
		check(t, err)
		readers = append(readers, r)
	}
	restore := setSysctl(t, "/proc/sys/fs/file-max", "16") // root, and so everybody else here, may have more
	late := make(chan error, 3)
	for range cap(late) {
		go func() { late <- w.serves("hot", hot)() }()
	}
	for i, r := range readers[1:] {
		if err := r.finish(big); err != nil {
			t.Errorf("reader %d, while there were no files: %v", i, err)
		}
	}
	if len(late) > 0 {
		t.Errorf("a newcomer has an answer although there are no files: %v", <-late)
	}
	w.wellAfter("ENFILE", restore, w.serves("hot", hot), fmt.Sprint(len(readers)-1, " responses went on"))
	for range cap(late) {
		if err := <-late; err != nil {
			t.Errorf("a newcomer from before the relief: %v", err)
		}
	}
	check(t, readers[0].finish(big))
	w.givenBack(before)
	if m := w.metrics(); m[`talon_accept_pauses_total{reason="descriptors"}`] == 0 {
		t.Errorf("no pause of the listener was counted: %v", m["talon_accept_pauses_total"])
	}
}

// TestNoReceiveBuffers: clients that ask without end and do not read hold all receive
// buffers of the ring (ENOBUFS). Others are served all the same, and the buffers come back.
func TestNoReceiveBuffers(t *testing.T) {
	dir := tree(t)
	hot := object(t, dir, "hot", 8000)
	object(t, dir, "big", 24<<20)
	w := start(t, dir, "--min-drain-rate=0")
	w.want("hot", hot)
	before := w.holdings()
	b := w.bystander("hot", hot)
	// Each begins a response that it does not read, so that what it asks then stays where
	// it was received: 18 KiB in a slab, the rest in buffers until its receive is paused.
	const asker = 120
	flood := []byte(strings.Repeat(request("hot"), 4000))
	conns := make([]net.Conn, 0, asker)
	for i := 0; i < asker; i++ {
		c := w.dial()
		check(t, c.conn.SetReadBuffer(4<<10))
		check(t, c.ask("big"))
		conns = append(conns, c.conn)
	}
	w.until("all of them being answered", func(m map[string]float64) bool { return m["talon_connections"] >= asker })
	check(t, w.cmd.Process.Signal(unix.SIGSTOP)) // so that all of it arrives in one turn
	for _, c := range conns {
		check(t, c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		_, _ = c.Write(flood) // as much as the sockets take
	}
	check(t, w.cmd.Process.Signal(unix.SIGCONT))
	w.until("no buffer left", func(m map[string]float64) bool { return m["talon_ring_recv_buffers_out_total"] > 0 })
	b.goesOn(20)
	w.want("hot", hot)
	others := b.end()
	w.wellAfter("ENOBUFS, receive buffers", func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}, w.serves("hot", hot), others)
	w.givenBack(before)
}

// TestMemlockOfNobody: a user that is not root and may lock 8 MiB, the default of most
// distributions, runs the whole worker.
func TestMemlockOfNobody(t *testing.T) {
	dir := tree(t)
	hot, big := object(t, dir, "hot", 8000), object(t, dir, "big", 24<<20)
	w := limited(t, "-l 8192", nobody(t), dir, "--rings=2")
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", w.pid()))
	check(t, err)
	if !strings.Contains(string(text), "Max locked memory         8388608") {
		t.Errorf("the limit does not hold:\n%s", text)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid()))
	check(t, err)
	if !strings.Contains(string(status), "Uid:\t65534\t65534") || !strings.Contains(string(status), "CapEff:\t0000000000000000") {
		t.Errorf("it is not nobody:\n%s", status)
	}
	b := w.bystander("hot", hot)
	for range 20 {
		w.want("big", big)
	}
	b.goesOn(20)
	t.Log("8 MiB of memlock, uid 65534:", b.end())
}

// memoryGroup makes a control group whose memory can be capped, version 2 or 1.
func memoryGroup(t *testing.T) (dir, limit string) {
	t.Helper()
	asRoot(t, "makes a control group")
	mounts, err := os.ReadFile("/proc/self/mounts")
	check(t, err)
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 3 && f[2] == "cgroup2":
			controllers, _ := os.ReadFile(f[1] + "/cgroup.controllers") // "" means no memory
			if !strings.Contains(string(controllers), "memory") {
				continue
			}
			_ = os.WriteFile(f[1]+"/cgroup.subtree_control", []byte("+memory"), 0) // it may be on already
			limit = "memory.max"
		case len(f) > 3 && f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",memory,"):
			limit = "memory.limit_in_bytes"
		default:
			continue
		}
		dir = filepath.Join(f[1], fmt.Sprint("talon-faults-", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("needs a writable control group: %v", err)
		}
		t.Cleanup(func() {
			for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				err := os.Remove(dir)
				if err == nil || time.Now().After(end) {
					check(t, err)
					return
				}
			}
		})
		if _, err := os.Stat(filepath.Join(dir, limit)); err != nil {
			t.Skipf("needs the memory controller: %v", err)
		}
		return dir, limit
	}
	t.Skip("needs a cgroup file system with the memory controller")
	return "", ""
}

// TestMemoryCap: the worker may have 64 MiB and serves 200 MiB of files that are not in
// memory to many clients. The kernel takes pages of files back; nobody is killed, nobody
// gets a wrong byte.
func TestMemoryCap(t *testing.T) {
	group, limit := memoryGroup(t)
	dir := tree(t)
	hot := object(t, dir, "hot", 8000)
	const files, size = 8, 25 << 20
	var bodies [files][]byte
	for i := range bodies {
		bodies[i] = object(t, dir, fmt.Sprint("big", i), size)
		f, err := os.Open(filepath.Join(dir, fmt.Sprint("big", i)))
		check(t, err)
		check(t, f.Sync()) // only clean pages can be taken back
		check(t, f.Close())
		evict(t, filepath.Join(dir, fmt.Sprint("big", i))) // else they are on another's account
	}
	check(t, os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(64<<20)), 0))
	// From the shell's first step on everything is on the group's account.
	cmd := exec.Command("sh", append([]string{"-c", `echo $$ > "$GROUP/cgroup.procs" && exec "$0" "$@"`, talon}, serveArgs(dir)...)...)
	cmd.Env = append(os.Environ(), "GROUP="+group)
	w := startCommand(t, cmd)
	w.want("hot", hot)
	before := w.holdings()
	b := w.bystander("hot", hot)
	// A cold reader has up to 1 MiB on its way, and the rings take 10 MiB: more readers
	// than the rest holds push each other's pages out before they are sent.
	done := make(chan error, 12)
	for i := range cap(done) {
		go func() { done <- w.serves(fmt.Sprint("big", i%files), bodies[i%files])() }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	b.goesOn(20)
	if now := pressure(t, group); now == 0 {
		t.Error("the cap was never met: the test tests nothing")
	}
	others := b.end()
	w.wellAfter("64 MiB of memory", func() {
		check(t, os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(1<<40)), 0))
	}, w.serves("hot", hot), others)
	w.givenBack(before)
	w.end()
}

// pressure is how often the group met its cap.
func pressure(t *testing.T, group string) (n int) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(group, "memory.failcnt")); err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		check(t, err)
		return n
	}
	text, err := os.ReadFile(filepath.Join(group, "memory.events"))
	check(t, err)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "max" || name == "high" {
			more, err := strconv.Atoi(value)
			check(t, err)
			n += more
		}
	}
	return n
}
