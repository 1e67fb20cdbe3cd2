package server

import (
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A request in steady state allocates nothing, from receive to account, whatever
// its kind. The client is raw system calls on one buffer, so that every allocation
// counted is the server's, or the runtime's own now and then: the least of a few
// measurements is free of those.
func TestRequestsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates: counted without it")
		return
	}
	requestsDoNotAllocate(t, startRig(t, nil))
}

// The same with a token, everything charged to a ledger, refusals, and a scheduler that shares a rate. The limits only count: the control loop, which would
// fill them again, allocates a view for each that it puts in force.
func TestRequestsOfTenantsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates: counted without it")
		return
	}
	policies := append(limited("a", 0, 0, 0, 0), limited("b", 0, 0, 0, 0)...)
	control := newControl(t, 1, policies...)
	tenants := []Tenant{{ID: "a", Allow: []string{"/"}, Tokens: []Token{tokenOf("a")}}, {ID: "b", Weight: 2, Tokens: []Token{tokenOf("b")}, MaxInflight: 1, MaxConnections: 5}}
	log, _ := openAdmissions(t, 1)
	r := startRig(t, func(c *Config) {
		c.Tenants, c.Ledger, c.EgressRate, c.AdmissionLog = must(NewTenants(patient(tenants))), control.ledger, 100e9, log
	})
	requestsDoNotAllocate(t, r, bearer("a"))
	if n := must(r.s.TenantStats(waitLong))[0]; n.Admitted == 0 || n.ChargedBytes == 0 {
		t.Errorf("nothing was charged: %+v", n)
	}
}

func requestsDoNotAllocate(t *testing.T, r *rig, lines ...string) {
	t.Helper()
	r.put("small", pattern(4<<10, 1))
	r.put("large", pattern(600<<10, 2))
	fd := rawDial(t, r.s.Addr())
	buf := make([]byte, 1<<20)
	for _, tt := range []struct {
		name, request string
	}{
		{"small", getRequest("/small", lines...)},
		{"sendfile", getRequest("/large", lines...)},
		{"range", getRequest("/large", append(lines, "Range: bytes=100-300000", `If-Match: *`)...)},
		{"not modified", getRequest("/small", append(lines, "If-Modified-Since: Sun, 06 Nov 2044 08:49:37 GMT")...)},
		{"missing", getRequest("/nope", lines...)},
		{"unknown token", getRequest("/small", bearer("nobody"))},
		{"not allowed", getRequest("/small", bearer("b"))},
		{"refused method", "PUT /small HTTP/1.1\r\nHost: h\r\n\r\n"},
	} {
		request := []byte(tt.request)
		size := roundTripOnce(t, fd, request, buf)
		const rounds = 300
		least := ^uint64(0)
		for range 5 {
			least = min(least, mallocsDuring(func() {
				for range rounds {
					roundTrip(t, fd, request, buf, size)
				}
			}))
		}
		if least > rounds/50 { // the runtime itself allocates now and then
			t.Errorf("%s: %d allocations in %d requests, want none", tt.name, least, rounds)
		}
	}
}

func mallocsDuring(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// rawDial connects without the runtime's poller.
func rawDial(t *testing.T, addr netip.AddrPort) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Connect(fd, sockaddr(addr)); err != nil {
		t.Fatal(err)
	}
	return fd
}

// roundTripOnce learns how long the response is: all there is after a while of
// silence.
func roundTripOnce(t *testing.T, fd int, request, buf []byte) int {
	t.Helper()
	if _, err := unix.Write(fd, request); err != nil {
		t.Fatal(err)
	}
	size := 0
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		timeout := 200
		if size == 0 {
			timeout = int(waitLong.Milliseconds())
		}
		n, err := unix.Poll(poll, timeout)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 && size == 0 {
			t.Fatalf("no response: %v", err)
		}
		if n == 0 {
			return size
		}
		n, err = unix.Read(fd, buf[size:])
		if err != nil || n <= 0 {
			t.Fatalf("reading: %d, %v", n, err)
		}
		size += n
	}
}

func roundTrip(t *testing.T, fd int, request, buf []byte, size int) {
	if _, err := unix.Write(fd, request); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < size; {
		n, err := unix.Read(fd, buf[got:size])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			t.Fatalf("after %d of %d bytes: %d, %v", got, size, n, err)
		}
		got += n
	}
}
