package server

import (
	"testing"

	"golang.org/x/sys/unix"
)

// With no descriptor left an object that is not open takes that of one which nobody
// reads; where all are being read it is refused, and nothing worse.
func TestNoDescriptorForAnObject(t *testing.T) {
	r := startRig(t, nil)
	big := pattern(24<<20, 2)
	r.put("a", pattern(4000, 1))
	r.put("big", big)
	c, reader := r.dial(), r.dial()
	c.get("/a")
	hog, giveBack := takeAllDescriptors(t)
	defer giveBack()
	reader.conn.SetReadBuffer(64 << 10)
	reader.send(getRequest("/big")) // in the place of the other, which is idle
	head, err := reader.r.Peek(12)
	if err != nil || string(head) != "HTTP/1.1 200" {
		t.Fatalf("the first of two objects, one of them idle: %q, %v, want 200", head, err)
	}
	if resp, _ := c.get("/a"); resp.StatusCode != 503 {
		t.Errorf("no descriptor, and none that could be given up: %d, want 503", resp.StatusCode)
	}
	unix.Close(hog)
	if resp, _ := c.get("/a"); resp.StatusCode != 200 {
		t.Errorf("with a descriptor: %d, want 200", resp.StatusCode)
	}
	_, body := reader.reply("GET")
	wantBody(t, "the response that began meanwhile", body, big)
}

// takeAllDescriptors leaves the process none, and returns one of those that it took,
// which is the caller's to close.
func takeAllDescriptors(t *testing.T) (one int, giveBack func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: min(uint64(openFDs()+100), old.Cur), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	if len(taken) == 0 {
		t.Fatal("there was no descriptor to begin with")
	}
	return taken[0], func() {
		closeAll(taken[1:])
		unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	}
}
